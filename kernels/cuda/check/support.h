#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/cuda/attention.h"

// Shared by the kernels' check and bench. They use only the CUDA runtime, so any machine with CMake
// and the CUDA toolkit runs them.
namespace edgedraft::cuda::check {

inline void must(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

// Device memory with a copy back. Uninitialised memory is all NaN, so that outputs a kernel skips
// are detected.
template <class T>
class Array {
 public:
  explicit Array(std::size_t count) : count_(count) {
    void* memory = nullptr;
    must(cudaMalloc(&memory, std::max<std::size_t>(count, 1) * sizeof(T)), "cudaMalloc");
    data_ = static_cast<T*>(memory);
    must(cudaMemsetAsync(data_, 0xFF, count * sizeof(T), nullptr), "cudaMemsetAsync");
    must(cudaDeviceSynchronize(), "cudaMemsetAsync");
  }
  explicit Array(const std::vector<T>& values) : Array(values.size()) {
    must(cudaMemcpyAsync(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice, nullptr),
         "cudaMemcpyAsync");
    must(cudaDeviceSynchronize(), "cudaMemcpyAsync");
  }
  ~Array() { static_cast<void>(cudaFree(data_)); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T* data() const { return data_; }
  std::size_t count() const { return count_; }
  std::vector<T> values() const {
    must(cudaDeviceSynchronize(), "kernel");
    std::vector<T> to(count_);
    must(cudaMemcpyAsync(to.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost, nullptr),
         "cudaMemcpyAsync");
    must(cudaDeviceSynchronize(), "cudaMemcpyAsync");
    return to;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

// splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  // In [-1, 1).
  float number() {
    return static_cast<float>(static_cast<std::int32_t>(next() >> 40)) * 0x1p-23f - 1.0f;
  }
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(next() % limit); }

 private:
  std::uint64_t state_;
};

inline std::vector<float> numbers(std::uint64_t seed, std::size_t count) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = random.number();
  return values;
}

inline float half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double fraction = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0 + fraction, exponent - 25);
  return static_cast<float>((bits & 0x8000) != 0 ? -magnitude : magnitude);
}
inline float bfloat16_value(std::uint16_t bits) {
  const std::uint32_t word = std::uint32_t{bits} << 16;
  float value;
  static_assert(sizeof value == sizeof word);
  std::copy_n(reinterpret_cast<const unsigned char*>(&word), sizeof word,
              reinterpret_cast<unsigned char*>(&value));
  return value;
}

// Random weights in file format; elements of quantized types are of order 1.
std::vector<std::byte> random_weight(DType type, std::uint32_t rows, std::uint32_t cols,
                                     std::uint64_t seed);
// Element i of a row, by the definition of its type.
double weight_number(DType type, const std::byte* row, std::uint32_t i);

// An attention call with its plan, its table on the device and its own scratch.
class Attention {
 public:
  // `tiles`: use matrix instructions if available.
  Attention(const std::vector<AttentionPart>& parts, const Heads& heads, bool tiles = true)
      : heads_(heads),
        table_(planned(parts, tiles)),
        scratch_(attention_scratch_floats(plan_, heads)) {}

  // `keys`, `values`: with the page_slots of the parts' pages; their own pages are ignored.
  AttentionArgs args(const ConstRows& q, const Cache& keys, const Cache& values,
                     const Rows& y) const {
    return {q,
            keys,
            values,
            table_.data(),
            plan_,
            heads_,
            y,
            scratch_.data(),
            scratch_.count(),
            1.0f / std::sqrt(static_cast<float>(heads_.head_dim)),
            nullptr};
  }

 private:
  std::vector<std::uint32_t> planned(const std::vector<AttentionPart>& parts, bool tiles) {
    std::vector<std::uint32_t> table(attention_table_words(parts.data(), parts.size()));
    AttentionLimits limits{0, false, std::size_t{1} << 30};
    must(attention_limits(limits), "attention_limits");
    limits.tiles = limits.tiles && tiles;
    must(plan_attention(parts.data(), parts.size(), heads_, limits, plan_, table.data()),
         "plan_attention");
    return table;
  }

  Heads heads_;
  AttentionPlan plan_{};
  Array<std::uint32_t> table_;
  Array<float> scratch_;
};

// Returns the number of failed checks. Prints a Markdown table.
int run_checks(bool small);
// Prints Markdown tables of times and bandwidths. `small`: a smoke test.
void run_bench(bool small, const std::string& only);
// Whole passes of a decoder; `copy_rate`: a copy's bytes per second, read and written.
void run_passes(bool small, double copy_rate);

}  // namespace edgedraft::cuda::check
