#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cpu/ops.h"
#include "shared/runtime/host_backend.h"
#include "shared/runtime/thread_pool.h"

namespace edgedraft::bench {

// What the processor can do, measured on the spot with the instructions that the kernels use, so
// that results are shares of something.
struct MachineLimits {
  std::string instruction_set;
  std::size_t threads;
  double read_bytes_per_second;        // from memory, all threads
  double float_operations_per_second;  // float32 multiplications and additions, all threads
  double int8_operations_per_second;   // the same of int8, with vector instructions
  double short_operations_per_second;  // with weights of six bits or fewer; 0: no other than those
  // int8 on whole tile registers (AMX), which no product that is scaled every 32 inputs reaches;
  // 0 without.
  double tile_operations_per_second;
  // bfloat16 on tile registers; a product with float32 activations takes three of them.
  double bf16_tile_operations_per_second;
};

// A machine with neighbours gives more at some times than at others: what it can do at best and
// what it gives now are two things.
class LimitMeter {
 public:
  // Measures with the instructions of `kernels`, on so many threads; 0: one per fast core. Holds
  // half a gigabyte to read.
  LimitMeter(const cpu::Kernels& kernels, std::uint32_t threads);
  // The best of many short tries: what the machine reaches undisturbed. Takes about a second.
  void measure();
  // The best of all calls of measure().
  const MachineLimits& best() const { return best_; }
  // What the machine gives now: means over so many seconds, reading and computing in turns.
  // Requires  measure() was called, which finds the fastest way to read
  MachineLimits sample(double duration);

 private:
  const std::byte* next_slice();

  const cpu::Kernels& kernels_;
  ThreadPool pool_;
  std::unique_ptr<HostBuffer> memory_;
  std::size_t slice_ = 0;
  std::size_t best_chunk_bytes_ = 0;
  MachineLimits best_{};
};

}  // namespace edgedraft::bench
