#pragma once

#include "kernels/cpu/simd.h"

// Element types of weights. Each decodes to exactly the float32 values its type defines, so results
// do not depend on where a kernel decodes.
//
// kStep      elements per Group; a row without a tail is a whole number of groups
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
  static constexpr std::size_t kBlockBytes = traits(DType::q8_0).block_bytes;
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

// Keys and values in int8 (kCacheTypes). Heads may begin inside a block.
struct I8 {
  static constexpr std::size_t row_bytes(std::size_t count) {
    return cache_bytes(DType::i8, count);
  }
};

// Small blocks of four or five bits, described in shared/tensor/blocks.h.
template <bool kHasFifths, bool kHasOffset>
struct SmallBlock {
  static constexpr std::size_t kStep = 32;
  static constexpr std::size_t kFifthsAt = kHasOffset ? 4 : 2;
  static constexpr std::size_t kFoursAt = kFifthsAt + (kHasFifths ? 4 : 0);
  static constexpr std::size_t kBlockBytes = kFoursAt + 16;
  struct Group {
    const std::byte* block;
    Part scale;
    Part offset;
  };
  static constexpr std::size_t row_bytes(std::size_t count) { return count / kStep * kBlockBytes; }
  static EDGEDRAFT_INLINE Group group(const std::byte* row, std::size_t k) {
    const std::byte* block = row + k / kStep * kBlockBytes;
    const float offset = kHasOffset ? half_to_float(load_bytes<std::uint16_t>(block + 2)) : 0.0f;
    return {block, all_part(half_to_float(load_bytes<std::uint16_t>(block))), all_part(offset)};
  }
  static EDGEDRAFT_INLINE Part part(const Group& g, std::size_t i) {
    UintPart level =
        load_uint8s(g.block + kFoursAt + i % 16) >> static_cast<unsigned>(i / 16 * 4) & 15u;
    if constexpr (kHasFifths) {
      const auto fifths = load_bytes<std::uint32_t>(g.block + kFifthsAt) >> i;
      for (std::size_t l = 0; l < kPartLanes; ++l) level[l] |= (fifths >> l & 1u) << 4;
    }
    if constexpr (kHasOffset) return to_floats(level) * g.scale + g.offset;
    return (to_floats(level) - (kHasFifths ? 16.0f : 8.0f)) * g.scale;
  }
};
using Q4_0 = SmallBlock<false, false>;
using Q4_1 = SmallBlock<false, true>;
using Q5_0 = SmallBlock<true, false>;
using Q5_1 = SmallBlock<true, true>;

// Blocks of 256 elements, described in shared/tensor/blocks.h; a group is 32 elements. Every
// product is exact, so fusing the subtraction changes nothing.
inline constexpr std::size_t kLargeBlock = traits(DType::q4_k).block_count;

// Scale and minimum of a group of q4_k or q5_k.
struct ScaleAndMinimum {
  Part scale;
  Part minimum;
};
EDGEDRAFT_INLINE ScaleAndMinimum scale_and_minimum(const std::byte* block, std::size_t group) {
  const auto at = [packed = block + 4](std::size_t i) { return static_cast<unsigned>(packed[i]); };
  unsigned scale;
  unsigned minimum;
  if (group < 4) {
    scale = at(group) & 63u;
    minimum = at(group + 4) & 63u;
  } else {
    scale = (at(group + 4) & 15u) | (at(group - 4) >> 6) << 4;
    minimum = at(group + 4) >> 4 | (at(group) >> 6) << 4;
  }
  const float d = half_to_float(load_bytes<std::uint16_t>(block));
  const float m = half_to_float(load_bytes<std::uint16_t>(block + 2));
  return {all_part(d * static_cast<float>(scale)), all_part(m * static_cast<float>(minimum))};
}

struct Q4_K {
  static constexpr std::size_t kStep = 32;
  static constexpr std::size_t kBlockBytes = traits(DType::q4_k).block_bytes;
  struct Group {
    const std::byte* fours;
    unsigned shift;
    ScaleAndMinimum line;
  };
  static constexpr std::size_t row_bytes(std::size_t count) {
    return count / kLargeBlock * kBlockBytes;
  }
  static EDGEDRAFT_INLINE Group group(const std::byte* row, std::size_t k) {
    const std::byte* block = row + k / kLargeBlock * kBlockBytes;
    const std::size_t index = k % kLargeBlock / kStep;
    return {block + 16 + index / 2 * 32, static_cast<unsigned>(index % 2 * 4),
            scale_and_minimum(block, index)};
  }
  static EDGEDRAFT_INLINE Part part(const Group& g, std::size_t i) {
    const UintPart level = load_uint8s(g.fours + i) >> g.shift & 15u;
    return to_floats(level) * g.line.scale - g.line.minimum;
  }
};

struct Q5_K {
  static constexpr std::size_t kStep = 32;
  static constexpr std::size_t kBlockBytes = traits(DType::q5_k).block_bytes;
  struct Group {
    const std::byte* fours;
    const std::byte* fifths;
    unsigned shift;
    unsigned fifth_shift;
    ScaleAndMinimum line;
  };
  static constexpr std::size_t row_bytes(std::size_t count) {
    return count / kLargeBlock * kBlockBytes;
  }
  static EDGEDRAFT_INLINE Group group(const std::byte* row, std::size_t k) {
    const std::byte* block = row + k / kLargeBlock * kBlockBytes;
    const std::size_t index = k % kLargeBlock / kStep;
    return {block + 48 + index / 2 * 32, block + 16, static_cast<unsigned>(index % 2 * 4),
            static_cast<unsigned>(index), scale_and_minimum(block, index)};
  }
  static EDGEDRAFT_INLINE Part part(const Group& g, std::size_t i) {
    const UintPart four = load_uint8s(g.fours + i) >> g.shift & 15u;
    const UintPart fifth = load_uint8s(g.fifths + i) >> g.fifth_shift & 1u;
    return to_floats(four | fifth << 4) * g.line.scale - g.line.minimum;
  }
};

struct Q6_K {
  static constexpr std::size_t kStep = 32;
  static constexpr std::size_t kBlockBytes = traits(DType::q6_k).block_bytes;
  struct Group {
    const std::byte* fours;
    const std::byte* twos;
    unsigned shift;
    unsigned two_shift;
    Part scales[2];  // per 16 elements
  };
  static constexpr std::size_t row_bytes(std::size_t count) {
    return count / kLargeBlock * kBlockBytes;
  }
  static EDGEDRAFT_INLINE Group group(const std::byte* row, std::size_t k) {
    const std::byte* block = row + k / kLargeBlock * kBlockBytes;
    const std::size_t index = k % kLargeBlock / kStep;
    const std::size_t half = index / 4;
    const std::size_t run = index % 4;
    const float d = half_to_float(load_bytes<std::uint16_t>(block + 208));
    const auto scale = [&](std::size_t i) {
      return all_part(d * static_cast<float>(static_cast<std::int8_t>(block[192 + 2 * index + i])));
    };
    return {block + half * 64 + run % 2 * 32,
            block + 128 + half * 32,
            static_cast<unsigned>(run / 2 * 4),
            static_cast<unsigned>(run * 2),
            {scale(0), scale(1)}};
  }
  static EDGEDRAFT_INLINE Part part(const Group& g, std::size_t i) {
    const UintPart four = load_uint8s(g.fours + i) >> g.shift & 15u;
    const UintPart two = load_uint8s(g.twos + i) >> g.two_shift & 3u;
    return (to_floats(four | two << 4) - 32.0f) * g.scales[i / 16];
  }
};

// The last `count` < 16 elements of a row, from k on, then zeros.
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

// Decodes elements first..first+count-1 of a row into `to`.
// Requires first a multiple of 256, or of 32 for smaller blocks; any for types without blocks.
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

template <>
inline void decode<I8>(const std::byte* row, std::size_t first, std::size_t count, float* to) {
  for (std::size_t k = 0; k < count;) {
    const std::size_t in_block = (first + k) % kInt8Block;
    const std::byte* block = row + cache_bytes(DType::i8, first + k - in_block);
    const std::size_t some = smaller(kInt8Block - in_block, count - k);
    const Part scale = all_part(load_bytes<float>(block));
    std::size_t i = 0;
    for (; i + kPartLanes <= some; i += kPartLanes) {
      store_part(to + k + i, load_int8s(block + sizeof(float) + in_block + i) * scale);
    }
    for (; i < some; ++i) {
      const auto level = static_cast<std::int8_t>(block[sizeof(float) + in_block + i]);
      to[k + i] = static_cast<float>(level) * scale[0];
    }
    k += some;
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
