#pragma once

#include "kernels/cpu/simd.h"

// The element types of weights. Each decodes to exactly the float32 numbers that the type stands
// for, so a product does not depend on where in a kernel it was decoded.
//
// kStep      elements that a Group holds; a row without a tail is a whole number of them
// group      opens the group at element k of a row
// part       elements i.. of it, one register
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

struct F32 {
  static constexpr std::size_t kStep = kLanes;
  static constexpr std::size_t kElementBytes = 4;
  struct Group {
    const std::byte* from;
  };
  static constexpr std::size_t row_bytes(std::size_t count) { return count * kElementBytes; }
  static EDGEDRAFT_INLINE Group group(const std::byte* row, std::size_t k) { return {row + 4 * k}; }
  static EDGEDRAFT_INLINE Part part(const Group& g, std::size_t i) {
    return load_bytes<Part>(g.from + 4 * i);
  }
};

struct F16 {
  static constexpr std::size_t kStep = kLanes;
  static constexpr std::size_t kElementBytes = 2;
  using Group = F32::Group;
  static constexpr std::size_t row_bytes(std::size_t count) { return count * kElementBytes; }
  static EDGEDRAFT_INLINE Group group(const std::byte* row, std::size_t k) { return {row + 2 * k}; }
  static EDGEDRAFT_INLINE Part part(const Group& g, std::size_t i) {
    return load_halves(g.from + 2 * i);
  }
};

struct BF16 {
  static constexpr std::size_t kStep = kLanes;
  static constexpr std::size_t kElementBytes = 2;
  using Group = F32::Group;
  static constexpr std::size_t row_bytes(std::size_t count) { return count * kElementBytes; }
  static EDGEDRAFT_INLINE Group group(const std::byte* row, std::size_t k) { return {row + 2 * k}; }
  static EDGEDRAFT_INLINE Part part(const Group& g, std::size_t i) {
    return load_bfloats(g.from + 2 * i);
  }
};

// Blocks of a float16 scale and 32 int8. scale * int8 has at most 19 significant bits: exact.
struct Q8_0 {
  static constexpr std::size_t kStep = 32;
  static constexpr std::size_t kBlockBytes = 34;
  struct Group {
    const std::byte* from;
    Part scale;
  };
  static constexpr std::size_t row_bytes(std::size_t count) { return count / kStep * kBlockBytes; }
  static EDGEDRAFT_INLINE Group group(const std::byte* row, std::size_t k) {
    const std::byte* block = row + k / kStep * kBlockBytes;
    return {block + 2, all_part(half_to_float(load_bytes<std::uint16_t>(block)))};
  }
  static EDGEDRAFT_INLINE Part part(const Group& g, std::size_t i) {
    return load_int8s(g.from + i) * g.scale;
  }
};

// Elements k.. of a row whose last `count` < 16 remain, zeros behind.
template <class W>
EDGEDRAFT_INLINE Lanes load_tail(const std::byte* row, std::size_t k, std::size_t count) {
  Lanes v = all(0.0f);
  if constexpr (W::kStep == kLanes) {
    std::byte padded[kLanes * W::kElementBytes] = {};
    std::memcpy(padded, row + k * W::kElementBytes, count * W::kElementBytes);
    const auto group = W::group(padded, 0);
    for (std::size_t p = 0; p < kParts; ++p) v.part[p] = W::part(group, p * kPartLanes);
  }
  return v;
}

// Elements first..first+count-1 of a row to `to`. Requires first a multiple of 32.
template <class W>
inline void decode(const std::byte* row, std::size_t first, std::size_t count, float* to) {
  std::size_t k = 0;
  for (; k + W::kStep <= count; k += W::kStep) {
    const auto group = W::group(row, first + k);
    for (std::size_t i = 0; i < W::kStep; i += kPartLanes)
      store_part(to + k + i, W::part(group, i));
  }
  if (k < count) store_first(to + k, load_tail<W>(row, first + k, count - k), count - k);
}

// Asks for the same elements to come into the second-level cache.
template <class W>
inline void prefetch(const std::byte* row, std::size_t first, std::size_t count) {
  const std::byte* end = row + W::row_bytes(first + count);
  for (const std::byte* p = row + W::row_bytes(first); p < end; p += 64)
    __builtin_prefetch(p, 0, 2);
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
