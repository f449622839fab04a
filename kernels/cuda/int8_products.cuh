#pragma once

#include <type_traits>

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/products.cuh"

// Shared by the kernels for few and for many rows: packed weights (pack_weight.cu), and the
// summation order within a group of 128 inputs.
namespace edgedraft::cuda {

// For many rows. Uses the narrow kernel if the device has too little shared memory
// (int8_matmul_wide.cu).
cudaError_t wide_int8_matmul(const Int8MatmulArgs& args, ProductKernel kernel, cudaStream_t stream);
// For few rows, or 32 rows at a time.
cudaError_t narrow_int8_matmul(const Int8MatmulArgs& args, cudaStream_t stream);

namespace int8_detail {

inline constexpr std::uint32_t kBlocks = 4;  // blocks of 32 inputs per group

// Int8 sums start at the bits of the float 1.5 * 2^23, whose last bit is worth 1. Their bits are
// then a float that exceeds the sum by exactly this value. The exponent stays the same for sums
// from -2^22 to 2^22 - 1. An exact subtraction replaces the slower conversion.
inline constexpr std::int32_t kNoSum = 0x4B400000;
inline constexpr float kNoSumValue = 12582912.0f;
// 32 products of a weight (a signed byte, or fewer bits within one) and an activation (at most
// 127).
static_assert(32 * 128 * 127 < 1 << 22);
__device__ inline float sum_value(std::int32_t sum) {
  return __uint_as_float(static_cast<std::uint32_t>(sum)) - kNoSumValue;
}

// Converts a byte to float in the same way.
__device__ inline float byte_value(std::uint32_t word, std::uint32_t byte, std::uint32_t offset) {
  return __uint_as_float(0x4B000000u | (word >> 8 * byte & 255u)) -
         (8388608.0f + static_cast<float>(offset));
}
__device__ inline float low_half(std::uint32_t pair) {
  return half_to_float(static_cast<std::uint16_t>(pair & 0xFFFFu));
}
__device__ inline float high_half(std::uint32_t pair) {
  return half_to_float(static_cast<std::uint16_t>(pair >> 16));
}

// Calls `run` with `type` as a constant. Coded types of 256 elements differ by their codes only and
// share a constant.
template <class Run>
cudaError_t for_packing_of(DType type, const Run& run) {
  switch (type) {
    case DType::q8_0:
      return run(std::integral_constant<DType, DType::q8_0>{});
    case DType::q4_0:
      return run(std::integral_constant<DType, DType::q4_0>{});
    case DType::q4_1:
      return run(std::integral_constant<DType, DType::q4_1>{});
    case DType::q5_0:
      return run(std::integral_constant<DType, DType::q5_0>{});
    case DType::q5_1:
      return run(std::integral_constant<DType, DType::q5_1>{});
    case DType::q4_k:
      return run(std::integral_constant<DType, DType::q4_k>{});
    case DType::q5_k:
      return run(std::integral_constant<DType, DType::q5_k>{});
    case DType::q6_k:
      return run(std::integral_constant<DType, DType::q6_k>{});
    case DType::q2_k:
      return run(std::integral_constant<DType, DType::q2_k>{});
    case DType::iq4_nl:
      return run(std::integral_constant<DType, DType::iq4_nl>{});
    case DType::mxfp4:
      return run(std::integral_constant<DType, DType::mxfp4>{});
    default:
      if (!is_coded(type)) return cudaErrorInvalidValue;
      return run(std::integral_constant<DType, DType::iq4_xs>{});
  }
}

// The packed weight (pack_weight.cu) from one tile of 16 outputs on.
struct PackedTile {
  const std::byte* numbers;
  const std::byte* rest;
  const std::byte* scales;
  const std::byte* factors;
  bool exists;
};

// Scales of a block in rows g and g + 8. Minimums are negated.
struct BlockScales {
  float first[2];
  float second[2];  // for the last 16 inputs, if they have their own
  float minimums[2];
  float second_minimums[2];
};

// The values of eight codes: those in the high and in the low halves of a word's bytes.
struct CodedWords {
  std::uint32_t high;
  std::uint32_t low;
};
__device__ inline std::uint32_t values_of_four(const Codes& codes, std::uint32_t four) {
  const std::uint32_t lower = __byte_perm(codes.words[0], codes.words[1], four);
  const std::uint32_t upper = __byte_perm(codes.words[2], codes.words[3], four);
  return __byte_perm(lower, upper, 0x3210u | (four & 0x8888u) >> 1);
}
__device__ inline CodedWords values_of(const Codes& codes, std::uint32_t word) {
  const std::uint32_t first = values_of_four(codes, word);
  const std::uint32_t second = values_of_four(codes, word >> 16);
  return {__byte_perm(first, second, 0x7531u), __byte_perm(first, second, 0x6420u)};
}

// A group of a tile. All loads are independent, so that many are in flight.
template <DType kType>
struct Weights {
  static constexpr Packing kPacking = packing(kType);
  static constexpr std::uint32_t kRestBits = kPacking.rest_bits();
  static constexpr std::uint32_t kNumberWords = kPacking.bits == 8 ? 4 : 2;
  static constexpr std::uint32_t kRestWords = 2 * kRestBits;
  static constexpr std::uint32_t kScaleWords = kPacking.scale_words();
  static constexpr std::uint32_t kFactorWords = kPacking.factor_words();
  // True if each 16 inputs have a sum of their own.
  static constexpr bool kHalves = kPacking.has_minimum || kPacking.is_k;
  // Factor on the elements. Signed ones are in the upper bits of a byte; the activations' scales
  // compensate for it, which is exact.
  static constexpr std::uint32_t kShift =
      kPacking.is_signed && !kPacking.is_coded ? 8 - kPacking.bits : 0;
  __device__ static float unit(const Codes& codes) {
    return kPacking.is_coded ? codes.unit : 1.0f / (1u << kShift);
  }
  // True if minimums need the activations' sums; halves have none stored.
  static constexpr bool kHasSums = kPacking.has_minimum && !kPacking.has_halves;

  uint4 numbers[kNumberWords];
  std::uint32_t rest[kRestWords > 0 ? kRestWords : 1];
  std::uint32_t scales[kScaleWords];  // scales of block t
  std::uint32_t factors[kFactorWords > 0 ? kFactorWords : 1];

  __device__ void load(const PackedTile& tile, std::uint32_t group, std::uint32_t lane) {
    const std::size_t at = std::size_t{group} * kWarp + lane;
    const auto* words = reinterpret_cast<const uint4*>(tile.numbers) +
                        std::size_t{group} * kNumberWords * kWarp + lane;
#pragma unroll
    for (std::uint32_t i = 0; i < kNumberWords; ++i) numbers[i] = words[i * kWarp];
    copy<kRestWords>(tile.rest, at, rest);
    // In the order of blocks and rows, not of lanes.
    copy<kScaleWords>(tile.scales, std::size_t{group} * kWarp + lane % 4 * 8 + lane / 4, scales);
    copy<kFactorWords>(tile.factors, std::size_t{group / 2} * 8 + lane / 4, factors);
  }
  __device__ void clear() {
    for (uint4& n : numbers) n = make_uint4(0, 0, 0, 0);
    for (std::uint32_t& word : rest) word = 0;
    for (std::uint32_t& word : scales) word = 0;
    for (std::uint32_t& word : factors) word = 0;
  }

  // Fragment a of block b.
  __device__ void fragment(std::uint32_t b, const Codes& codes, std::uint32_t (&a)[4]) const {
    unpack(numbers[kPacking.bits == 8 ? b : b / 2], rest + b / 2 * kRestBits, b % 2, codes, a);
  }
  // Fragment a of block `block` (0 or 1) of a pair. `some`: the pair's elements, or the block's if
  // they have 8 bits; `others`: the remaining bits.
  __device__ static void unpack(const uint4& some, const std::uint32_t* others, std::uint32_t block,
                                const Codes& codes, std::uint32_t (&a)[4]) {
    if constexpr (kPacking.bits == 8) {
      a[0] = some.x;
      a[1] = some.y;
      a[2] = some.z;
      a[3] = some.w;
    } else if constexpr (kPacking.is_coded) {
      const CodedWords first = values_of(codes, block == 0 ? some.x : some.z);
      const CodedWords second = values_of(codes, block == 0 ? some.y : some.w);
      a[0] = first.high;
      a[1] = first.low;
      a[2] = second.high;
      a[3] = second.low;
    } else {
      const std::uint32_t words[2] = {block == 0 ? some.x : some.z, block == 0 ? some.y : some.w};
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint32_t word = words[i / 2];
        if (kPacking.is_signed) {
          a[i] = (i % 2 == 0 ? word : word << 4) & 0xF0F0F0F0u;
        } else {
          a[i] = (i % 2 == 0 ? word >> 4 : word) & 0x0F0F0F0Fu;
        }
        if constexpr (kRestBits > 0) a[i] |= rest_of(others, 4 * block + i);
      }
    }
  }

  // Scales of block b, equal for every activation row. Zeros have zero scales.
  __device__ void read_scales(std::uint32_t lane, std::uint32_t b, BlockScales& all) const {
    const int from = static_cast<int>((lane & ~3u) | b);
    std::uint32_t words[kScaleWords];
#pragma unroll
    for (std::uint32_t i = 0; i < kScaleWords; ++i) {
      words[i] = __shfl_sync(kAllLanes, scales[i], from);
    }
    unpack_scales(words, factors, all);
  }
  __device__ static void unpack_scales(const std::uint32_t* words, const std::uint32_t* pairs,
                                       BlockScales& all) {
    if constexpr (kType == DType::mxfp4) {
      all.first[0] = all.second[0] = __uint_as_float(words[0] << 16);
      all.first[1] = all.second[1] = __uint_as_float(words[0] & 0xFFFF0000u);
    } else if constexpr (kPacking.has_halves) {
      const std::uint32_t scales = words[0] & 0x0F0F0F0Fu;
      const std::uint32_t minimums = words[0] >> 4 & 0x0F0F0F0Fu;
#pragma unroll
      for (std::uint32_t below = 0; below < 2; ++below) {
        const float factor = below == 0 ? low_half(pairs[0]) : high_half(pairs[0]);
        const float minimum = -(below == 0 ? low_half(pairs[1]) : high_half(pairs[1]));
        all.first[below] = __fmul_rn(factor, byte_value(scales, below, 0));
        all.second[below] = __fmul_rn(factor, byte_value(scales, 2 + below, 0));
        all.minimums[below] = __fmul_rn(minimum, byte_value(minimums, below, 0));
        all.second_minimums[below] = __fmul_rn(minimum, byte_value(minimums, 2 + below, 0));
      }
    } else if constexpr (!kPacking.is_k) {
      all.first[0] = all.second[0] = low_half(words[0]);
      all.first[1] = all.second[1] = high_half(words[0]);
      if constexpr (kPacking.has_minimum) {
        all.minimums[0] = low_half(words[1]);
        all.minimums[1] = high_half(words[1]);
      }
    } else {
#pragma unroll
      for (std::uint32_t below = 0; below < 2; ++below) {
        const float factor = below == 0 ? low_half(pairs[0]) : high_half(pairs[0]);
        constexpr std::uint32_t kOffset = kPacking.has_minimum ? 0 : 128;
        const float second = byte_value(words[0], 2 + below, kOffset);
        all.first[below] = __fmul_rn(factor, byte_value(words[0], below, kOffset));
        if constexpr (kPacking.has_minimum) {
          all.second[below] = all.first[below];
          all.minimums[below] =
              __fmul_rn(-(below == 0 ? low_half(pairs[1]) : high_half(pairs[1])), second);
        } else {
          all.second[below] = __fmul_rn(factor, second);
        }
      }
    }
  }

 private:
  // Words `index` * kCount.. at `from`, in one load.
  template <std::uint32_t kCount, std::size_t kWords>
  __device__ static void copy(const std::byte* from, std::size_t index,
                              std::uint32_t (&to)[kWords]) {
    static_assert(kCount == 0 || kCount == kWords);
    if constexpr (kCount == 1) {
      to[0] = reinterpret_cast<const std::uint32_t*>(from)[index];
    } else if constexpr (kCount == 2) {
      const uint2 words = reinterpret_cast<const uint2*>(from)[index];
      to[0] = words.x;
      to[1] = words.y;
    } else if constexpr (kCount == 4) {
      const uint4 words = reinterpret_cast<const uint4*>(from)[index];
      to[0] = words.x;
      to[1] = words.y;
      to[2] = words.z;
      to[3] = words.w;
    }
  }
  // The bits beyond four of word n of two blocks' fragments, in position.
  __device__ static std::uint32_t rest_of(const std::uint32_t* others, std::uint32_t n) {
    constexpr std::uint32_t kTo = kPacking.is_signed ? kShift : 4;
    constexpr std::uint32_t kMask = ((1u << kRestBits) - 1) * 0x01010101u << kTo;
    const std::uint32_t place = n * kRestBits % 8;
    const std::uint32_t word = others[n * kRestBits / 8];
    return (place >= kTo ? word >> (place - kTo) : word << (kTo - place)) & kMask;
  }
};

// of_group += a block's products. `weights`: its fragment a; `low`, `high`: fragment b of eight
// rows; `sums`: activation sums of the block in rows 2 t, 2 t + 1, for minimums. Minimums of halves
// need a sum per 16 inputs, which are products with ones.
template <class Weights>
__device__ void add_block(const std::uint32_t (&weights)[4], const BlockScales& scales,
                          std::uint32_t low, std::uint32_t high, const float (&sums)[2],
                          float (&of_group)[4]) {
  std::int32_t first[4] = {kNoSum, kNoSum, kNoSum, kNoSum};
  if constexpr (Weights::kHalves) {
    std::int32_t second[4] = {kNoSum, kNoSum, kNoSum, kNoSum};
    mma_int8_16(first, {weights[0], weights[1]}, low);
    mma_int8_16(second, {weights[2], weights[3]}, high);
    std::int32_t low_sum[4] = {kNoSum, kNoSum, kNoSum, kNoSum};
    std::int32_t high_sum[4] = {kNoSum, kNoSum, kNoSum, kNoSum};
    if constexpr (Weights::kPacking.has_halves) {
      constexpr std::uint32_t kOnes = 0x01010101u;
      mma_int8_16(low_sum, {kOnes, kOnes}, low);
      mma_int8_16(high_sum, {kOnes, kOnes}, high);
    }
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      float& sum = of_group[i];
      sum = fmaf(scales.first[i / 2], sum_value(first[i]), sum);
      sum = fmaf(scales.second[i / 2], sum_value(second[i]), sum);
      if constexpr (Weights::kPacking.has_halves) {
        sum = fmaf(scales.minimums[i / 2], sum_value(low_sum[i]), sum);
        sum = fmaf(scales.second_minimums[i / 2], sum_value(high_sum[i]), sum);
      } else if constexpr (Weights::kPacking.has_minimum) {
        sum = fmaf(scales.minimums[i / 2], sums[i % 2], sum);
      }
    }
  } else {
    mma_int8(first, weights, {low, high});
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      of_group[i] = fmaf(scales.first[i / 2], sum_value(first[i]), of_group[i]);
    }
  }
}

}  // namespace int8_detail
}  // namespace edgedraft::cuda
