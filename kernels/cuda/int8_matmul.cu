#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/products.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kBlocks = 4;  // of 32 inputs in a stretch

// Sums of int8 products start at the bits of the float 1.5 * 2^23, a step of whose last bit is 1.
// Their bits are then those of a float that is larger than the sum by just this number, as long as
// its exponent stays, which it does for sums from -2^22 to 2^22 - 1, and the difference is exact:
// a subtraction instead of a conversion, which takes longer.
constexpr std::int32_t kNoSum = 0x4B400000;
constexpr float kNoSumValue = 12582912.0f;
// 32 products of a weight, which is a signed byte or a shorter number in some bits of one, and an
// activation, which is at most 127 in size.
static_assert(32 * 128 * 127 < 1 << 22);
__device__ inline float sum_value(std::int32_t sum) {
  return __uint_as_float(static_cast<std::uint32_t>(sum)) - kNoSumValue;
}

// A float is made of a byte in the same way.
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

// The packed weight (pack_weight.cu) from one tile of 16 outputs on.
struct PackedTile {
  const std::byte* numbers;
  const std::byte* rest;
  const std::byte* scales;
  const std::byte* factors;
  bool exists;
};

// What scales the blocks of a stretch in rows g and g + 8. Minimums are negated.
struct Scales {
  float first[kBlocks][2];
  float second[kBlocks][2];  // of the last 16 inputs, where these have their own
  float minimums[kBlocks][2];
};

// A stretch of a tile. All loads are independent, so that many are on their way at once.
template <DType kType>
struct Weights {
  static constexpr Packing kPacking = packing(kType);
  static constexpr std::uint32_t kRestBits = kPacking.rest_bits();
  static constexpr std::uint32_t kNumberWords = kPacking.bits == 8 ? 4 : 2;
  static constexpr std::uint32_t kRestWords = 2 * kRestBits;
  static constexpr std::uint32_t kScaleWords = kPacking.scale_words();
  static constexpr std::uint32_t kFactorWords = kPacking.factor_words();
  // Whether each 16 inputs are a sum of their own.
  static constexpr bool kHalves = kPacking.has_minimum || kPacking.is_k;
  // What a number is multiplied by. Signed ones stand in the upper bits of a byte; the scales of
  // activations take that back, which changes no bit.
  static constexpr std::uint32_t kShift = kPacking.is_signed ? 8 - kPacking.bits : 0;
  static constexpr float kUnit = 1.0f / (1u << kShift);

  uint4 numbers[kNumberWords];
  std::uint32_t rest[kRestWords > 0 ? kRestWords : 1];
  std::uint32_t scales[kScaleWords];  // of block t
  std::uint32_t factors[kFactorWords > 0 ? kFactorWords : 1];

  __device__ void load(const PackedTile& tile, std::uint32_t stretch, std::uint32_t lane) {
    const std::size_t at = std::size_t{stretch} * kWarp + lane;
    const auto* words = reinterpret_cast<const uint4*>(tile.numbers) +
                        std::size_t{stretch} * kNumberWords * kWarp + lane;
#pragma unroll
    for (std::uint32_t i = 0; i < kNumberWords; ++i) numbers[i] = words[i * kWarp];
    copy<kRestWords>(tile.rest, at, rest);
    // In the order of blocks and rows, not of lanes.
    copy<kScaleWords>(tile.scales, std::size_t{stretch} * kWarp + lane % 4 * 8 + lane / 4, scales);
    copy<kFactorWords>(tile.factors, std::size_t{stretch / 2} * 8 + lane / 4, factors);
  }
  __device__ void clear() {
    for (uint4& n : numbers) n = make_uint4(0, 0, 0, 0);
    for (std::uint32_t& word : rest) word = 0;
    for (std::uint32_t& word : scales) word = 0;
    for (std::uint32_t& word : factors) word = 0;
  }

  // Fragment a of block b.
  __device__ void fragment(std::uint32_t b, std::uint32_t (&a)[4]) const {
    if constexpr (kPacking.bits == 8) {
      a[0] = numbers[b].x;
      a[1] = numbers[b].y;
      a[2] = numbers[b].z;
      a[3] = numbers[b].w;
    } else {
      const uint4& pair = numbers[b / 2];
      const std::uint32_t words[2] = {b % 2 == 0 ? pair.x : pair.z, b % 2 == 0 ? pair.y : pair.w};
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint32_t word = words[i / 2];
        if (kPacking.is_signed) {
          a[i] = (i % 2 == 0 ? word : word << 4) & 0xF0F0F0F0u;
        } else {
          a[i] = (i % 2 == 0 ? word >> 4 : word) & 0x0F0F0F0Fu;
        }
        if constexpr (kRestBits > 0) a[i] |= rest_of(4 * b + i);
      }
    }
  }

  // For every row of activations the same. Zeros have scales of zero.
  __device__ void read_scales(std::uint32_t lane, Scales& all) const {
#pragma unroll
    for (std::uint32_t b = 0; b < kBlocks; ++b) {
      const int from = static_cast<int>((lane & ~3u) | b);
      const std::uint32_t word = __shfl_sync(kAllLanes, scales[0], from);
      if constexpr (!kPacking.is_k) {
        all.first[b][0] = all.second[b][0] = low_half(word);
        all.first[b][1] = all.second[b][1] = high_half(word);
        if constexpr (kPacking.has_minimum) {
          const std::uint32_t minimums = __shfl_sync(kAllLanes, scales[kScaleWords - 1], from);
          all.minimums[b][0] = low_half(minimums);
          all.minimums[b][1] = high_half(minimums);
        }
      } else {
#pragma unroll
        for (std::uint32_t below = 0; below < 2; ++below) {
          const float factor = below == 0 ? low_half(factors[0]) : high_half(factors[0]);
          constexpr std::uint32_t kOffset = kPacking.has_minimum ? 0 : 128;
          const float second = byte_value(word, 2 + below, kOffset);
          all.first[b][below] = __fmul_rn(factor, byte_value(word, below, kOffset));
          if constexpr (kPacking.has_minimum) {
            const std::uint32_t pair = factors[kFactorWords - 1];
            all.second[b][below] = all.first[b][below];
            all.minimums[b][below] =
                __fmul_rn(-(below == 0 ? low_half(pair) : high_half(pair)), second);
          } else {
            all.second[b][below] = __fmul_rn(factor, second);
          }
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
  // The bits beyond four of word n of a stretch's fragments, where they belong.
  __device__ std::uint32_t rest_of(std::uint32_t n) const {
    constexpr std::uint32_t kTo = kPacking.is_signed ? kShift : 4;
    constexpr std::uint32_t kMask = ((1u << kRestBits) - 1) * 0x01010101u << kTo;
    const std::uint32_t place = n * kRestBits % 8;
    const std::uint32_t word = rest[n * kRestBits / 8];
    return (place >= kTo ? word >> (place - kTo) : word << (kTo - place)) & kMask;
  }
};

// For column tiles of 1, 2 and 4 times 8 rows: how many stretches are on their way, and how many
// blocks a multiprocessor is to hold. As registers allow.
struct Tuning {
  std::uint32_t ahead;
  int blocks;
};
__host__ __device__ constexpr Tuning tuning(DType type, std::uint32_t column_tiles) {
  const bool is_wide = column_tiles == 4;
  switch (type) {
    case DType::q4_0:
      return {is_wide ? 1u : 2u, 2};
    case DType::q8_0:
    case DType::q5_0:
      return {is_wide ? 0u : 1u, 2};
    default:
      return {is_wide ? 0u : 1u, column_tiles == 1 ? 2 : 1};
  }
}

// A stretch's activations of the rows of one column tile.
struct Activations {
  uint4 words[2];   // row g: fragments b of four blocks
  float scales[2];  // of rows 2 t, 2 t + 1, by the unit of weights
  float4 sums[2];   // of the blocks of these rows, for minimums
};

template <class Weights>
__device__ void load_activations(const Int8MatmulArgs& a, std::uint32_t first_row,
                                 std::uint32_t stretch, std::uint32_t lane, Activations& x) {
  // Rows of a stretch stand together, so that those of other column tiles are a fixed way off.
  const std::size_t at = std::size_t{stretch} * a.rows + first_row;
  x.words[0] = x.words[1] = make_uint4(0, 0, 0, 0);
  if (first_row + lane / 4 < a.rows) {
    const auto* words =
        reinterpret_cast<const uint4*>(a.values + at * kStretch) + lane / 4 * 8 + lane % 4 * 2;
    x.words[0] = words[0];
    x.words[1] = words[1];
  }
  const std::size_t column = at + lane % 4 * 2;
  for (std::uint32_t i = 0; i < 2; ++i) {
    const bool exists = first_row + lane % 4 * 2 + i < a.rows;
    x.scales[i] = exists ? a.scales[column + i] * Weights::kUnit : 0.0f;
    if constexpr (Weights::kPacking.has_minimum) {
      x.sums[i] =
          exists ? reinterpret_cast<const float4*>(a.sums)[column + i] : make_float4(0, 0, 0, 0);
    }
  }
}

__device__ inline float part(const float4& v, std::uint32_t i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// sums += the stretch's products, in the order of blocks.
template <class Weights>
__device__ void add_stretch(const Weights& w, const Scales& scales, const Activations& x,
                            float (&sums)[4]) {
  float of_stretch[4] = {};
#pragma unroll
  for (std::uint32_t b = 0; b < kBlocks; ++b) {
    std::uint32_t weights[4];
    w.fragment(b, weights);
    const uint4& words = x.words[b / 2];
    const std::uint32_t low = b % 2 == 0 ? words.x : words.z;
    const std::uint32_t high = b % 2 == 0 ? words.y : words.w;
    std::int32_t first[4] = {kNoSum, kNoSum, kNoSum, kNoSum};
    if constexpr (Weights::kHalves) {
      std::int32_t second[4] = {kNoSum, kNoSum, kNoSum, kNoSum};
      mma_int8_16(first, {weights[0], weights[1]}, low);
      mma_int8_16(second, {weights[2], weights[3]}, high);
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        float& sum = of_stretch[i];
        sum = fmaf(scales.first[b][i / 2], sum_value(first[i]), sum);
        sum = fmaf(scales.second[b][i / 2], sum_value(second[i]), sum);
        if constexpr (Weights::kPacking.has_minimum) {
          sum = fmaf(scales.minimums[b][i / 2], part(x.sums[i % 2], b), sum);
        }
      }
    } else {
      mma_int8(first, weights, {low, high});
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        of_stretch[i] = fmaf(scales.first[b][i / 2], sum_value(first[i]), of_stretch[i]);
      }
    }
  }
#pragma unroll
  for (std::uint32_t i = 0; i < 4; ++i) sums[i] = fmaf(x.scales[i % 2], of_stretch[i], sums[i]);
}

// A block 32 outputs of a tile of rows; its warps take stretches in turn, and the weights of those
// that come next are on their way meanwhile, the first of them before other kernels have ended.
template <DType kType, std::uint32_t kColumnTiles>
__global__ void __launch_bounds__(kProductThreads, tuning(kType, kColumnTiles).blocks)
    int8_matmul_kernel(Int8MatmulArgs a) {
  let_next_start();
  using Stretch = Weights<kType>;
  __shared__ float memory[kProductWarps][2 * kColumnTiles * 4 * kWarp];
  const ProductTile at = product_tile(a, blockIdx.x);
  const Product& product = a.products[at.product];
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t warp = threadIdx.x / kWarp;
  const std::uint32_t first_row = blockIdx.y * 8 * kColumnTiles;
  const std::uint32_t stretch_count = stretches(a.inputs);
  const PackedLayout layout = packed_layout(kType, product.outputs, a.inputs);

  PackedTile tiles[2];
#pragma unroll
  for (std::uint32_t m = 0; m < 2; ++m) {
    // The layout of all tiles before this one says where its parts begin.
    const PackedLayout before = packed_layout(kType, at.first_output + m * 16, a.inputs);
    tiles[m] = {product.weight + before.rest,
                product.weight + layout.rest + (before.scales - before.rest),
                product.weight + layout.scales + (before.factors - before.scales),
                product.weight + layout.factors + (before.total - before.factors),
                at.first_output + m * 16 < product.outputs};
  }

  const auto load = [&](std::uint32_t stretch, Stretch(&weights)[2]) {
#pragma unroll
    for (std::uint32_t m = 0; m < 2; ++m) {
      if (tiles[m].exists && stretch < stretch_count) {
        weights[m].load(tiles[m], stretch, lane);
      } else {
        weights[m].clear();
      }
    }
  };

  float sums[2][kColumnTiles][4] = {};
  constexpr std::uint32_t kAhead = tuning(kType, kColumnTiles).ahead;
  constexpr bool kFirst = kColumnTiles < 4 && kAhead > 0;
  Stretch weights[kAhead + 1][2];  // those in work and, behind them, those on their way
#pragma unroll
  for (std::uint32_t i = 0; i != kAhead; ++i) load(warp + i * kProductWarps, weights[i + 1]);
  wait_for_those_before();
  for (std::uint32_t stretch = warp; stretch < stretch_count; stretch += kProductWarps) {
#pragma unroll
    for (std::uint32_t i = 0; i != kAhead; ++i) {
      weights[i][0] = weights[i + 1][0];
      weights[i][1] = weights[i + 1][1];
    }
    // Activations before the weights that come next: they are needed sooner.
    Activations some[kFirst ? kColumnTiles : 1];
    if (kFirst) {
#pragma unroll
      for (std::uint32_t n = 0; n < kColumnTiles; ++n) {
        load_activations<Stretch>(a, first_row + n * 8, stretch, lane, some[n]);
      }
    }
    load(stretch + kAhead * kProductWarps, weights[kAhead]);
    // Once for all rows where that costs arithmetic. A pair of float16 is asked for again for each
    // column tile, as registers that hold it would be wanting elsewhere.
    constexpr bool kOnce = Stretch::kHalves;
    Scales scales[2];
    if (kOnce) {
#pragma unroll
      for (std::uint32_t m = 0; m < 2; ++m) weights[0][m].read_scales(lane, scales[m]);
    }
#pragma unroll
    for (std::uint32_t n = 0; n < kColumnTiles; ++n) {
      Activations& x = some[kFirst ? n : 0];
      if (!kFirst) load_activations<Stretch>(a, first_row + n * 8, stretch, lane, x);
#pragma unroll
      for (std::uint32_t m = 0; m < 2; ++m) {
        if (!kOnce) weights[0][m].read_scales(lane, scales[m]);
        add_stretch(weights[0][m], scales[m], x, sums[m][n]);
      }
    }
  }
  write_tile<kColumnTiles>(product, at.first_output, first_row, a.rows, sums, memory);
}

template <DType kType>
cudaError_t run(const Int8MatmulArgs& args, cudaStream_t stream) {
  const std::uint32_t tiles = product_tile_count(args);
  if (args.rows <= 8) {
    return launch(int8_matmul_kernel<kType, 1>, dim3(tiles), kProductThreads, stream, args);
  }
  if (args.rows <= 16) {
    return launch(int8_matmul_kernel<kType, 2>, dim3(tiles), kProductThreads, stream, args);
  }
  return launch(int8_matmul_kernel<kType, 4>, dim3(tiles, ceil_div(args.rows, 32)), kProductThreads,
                stream, args);
}

}  // namespace

cudaError_t int8_matmul(const Int8MatmulArgs& args, cudaStream_t stream) {
  switch (args.type) {
    case DType::q8_0:
      return run<DType::q8_0>(args, stream);
    case DType::q4_0:
      return run<DType::q4_0>(args, stream);
    case DType::q4_1:
      return run<DType::q4_1>(args, stream);
    case DType::q5_0:
      return run<DType::q5_0>(args, stream);
    case DType::q5_1:
      return run<DType::q5_1>(args, stream);
    case DType::q4_k:
      return run<DType::q4_k>(args, stream);
    case DType::q5_k:
      return run<DType::q5_k>(args, stream);
    case DType::q6_k:
      return run<DType::q6_k>(args, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace edgedraft::cuda
