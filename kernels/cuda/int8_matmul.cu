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
// 32 products of a weight, which is a signed byte, or a half byte in the upper half of one, and an
// activation, which is at most 127 in size.
static_assert(32 * 128 * 127 < 1 << 22);
__device__ inline float sum_value(std::int32_t sum) {
  return __uint_as_float(static_cast<std::uint32_t>(sum)) - kNoSumValue;
}

// The packed weight (pack_weight.cu) from one tile of 16 outputs on. Each form opens a stretch: all
// its loads are independent, so that many are on their way at once.
struct PackedTile {
  const std::byte* numbers;
  const std::byte* scales;
  const std::byte* minimums;
  bool exists;
};

// Four blocks of 32 numbers of a tile, of each PackedForm.
struct InBytes {
  // Stretches on their way for few rows and for many: as many as registers allow.
  static constexpr std::uint32_t kAhead = 1;
  static constexpr std::uint32_t kAheadWide = 0;
  static constexpr int kOfProcessor = 2;  // blocks that a multiprocessor is to hold
  static constexpr std::uint32_t kNumbersBytes = 512;
  static constexpr std::uint32_t kScalesBytes = 32;
  static constexpr std::uint32_t kMinimumsBytes = 0;

  uint4 numbers[kBlocks];
  std::uint32_t scales;  // of block t: a pair of float16

  __device__ void load(const PackedTile& tile, std::size_t block, std::uint32_t lane) {
    const auto* from = reinterpret_cast<const uint4*>(tile.numbers) + block * kWarp + lane;
    for (std::uint32_t b = 0; b < kBlocks; ++b) numbers[b] = from[b * kWarp];
    scales = reinterpret_cast<const std::uint32_t*>(tile.scales)[(block + lane % 4) * 8 + lane / 4];
  }
  __device__ void clear() {
    for (uint4& n : numbers) n = make_uint4(0, 0, 0, 0);
    scales = 0;
  }
  __device__ void fragment(std::uint32_t b, std::uint32_t (&a)[4]) const {
    a[0] = numbers[b].x;
    a[1] = numbers[b].y;
    a[2] = numbers[b].z;
    a[3] = numbers[b].w;
  }
  static constexpr float kUnit = 1.0f;
};

struct Nibbles {
  static constexpr std::uint32_t kAhead = 2;
  static constexpr std::uint32_t kAheadWide = 1;
  static constexpr int kOfProcessor = 2;
  static constexpr std::uint32_t kNumbersBytes = 256;
  static constexpr std::uint32_t kScalesBytes = 32;
  static constexpr std::uint32_t kMinimumsBytes = 0;

  uint4 numbers[kBlocks / 2];
  std::uint32_t scales;

  __device__ void load(const PackedTile& tile, std::size_t block, std::uint32_t lane) {
    const auto* from = reinterpret_cast<const uint4*>(tile.numbers) + block / 2 * kWarp + lane;
    for (std::uint32_t b = 0; b < kBlocks / 2; ++b) numbers[b] = from[b * kWarp];
    scales = reinterpret_cast<const std::uint32_t*>(tile.scales)[(block + lane % 4) * 8 + lane / 4];
  }
  __device__ void clear() {
    for (uint4& n : numbers) n = make_uint4(0, 0, 0, 0);
    scales = 0;
  }
  // The numbers by 16: a half byte stands in the high half. The scales of activations take that
  // back, which changes no bit.
  __device__ void fragment(std::uint32_t b, std::uint32_t (&a)[4]) const {
    const uint4& pair = numbers[b / 2];
    const std::uint32_t first = b % 2 == 0 ? pair.x : pair.z;
    const std::uint32_t second = b % 2 == 0 ? pair.y : pair.w;
    a[0] = first & 0xF0F0F0F0u;
    a[1] = first << 4 & 0xF0F0F0F0u;
    a[2] = second & 0xF0F0F0F0u;
    a[3] = second << 4 & 0xF0F0F0F0u;
  }
  static constexpr float kUnit = 1.0f / 16.0f;
};

struct Lines {
  static constexpr std::uint32_t kAhead = 0;
  static constexpr std::uint32_t kAheadWide = 0;
  static constexpr int kOfProcessor = 0;  // as it comes
  static constexpr std::uint32_t kNumbersBytes = 512;
  static constexpr std::uint32_t kScalesBytes = 128;
  static constexpr std::uint32_t kMinimumsBytes = 64;

  uint4 numbers[kBlocks];
  float4 scales[kBlocks];  // rows g, g + 8 for inputs 0..15, then for 16..31
  float2 minimums[kBlocks];

  __device__ void load(const PackedTile& tile, std::size_t block, std::uint32_t lane) {
    const auto* from = reinterpret_cast<const uint4*>(tile.numbers) + block * kWarp + lane;
    for (std::uint32_t b = 0; b < kBlocks; ++b) {
      numbers[b] = from[b * kWarp];
      const std::size_t row = (block + b) * 8 + lane / 4;
      scales[b] = reinterpret_cast<const float4*>(tile.scales)[row];
      minimums[b] = reinterpret_cast<const float2*>(tile.minimums)[row];
    }
  }
  __device__ void clear() {
    for (uint4& n : numbers) n = make_uint4(0, 0, 0, 0);
    for (float4& s : scales) s = make_float4(0, 0, 0, 0);
    for (float2& m : minimums) m = make_float2(0, 0);
  }
  __device__ void fragment(std::uint32_t b, std::uint32_t (&a)[4]) const {
    a[0] = numbers[b].x;
    a[1] = numbers[b].y;
    a[2] = numbers[b].z;
    a[3] = numbers[b].w;
  }
  static constexpr float kUnit = 1.0f;
};

// A stretch's activations of the rows of one column tile.
struct Activations {
  uint4 words[2];   // row g: fragments b of four blocks
  float scales[2];  // of rows 2 t, 2 t + 1, by the unit of the form's numbers
  float4 sums[2];   // of the blocks of these rows, for minimums
};

template <class Form>
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
    x.scales[i] = exists ? a.scales[column + i] * Form::kUnit : 0.0f;
    if constexpr (Form::kMinimumsBytes > 0) {
      x.sums[i] =
          exists ? reinterpret_cast<const float4*>(a.sums)[column + i] : make_float4(0, 0, 0, 0);
    }
  }
}

__device__ inline float part(const float4& v, std::uint32_t i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// sums += the stretch's products, in the order of blocks.
template <class Form>
__device__ void add_stretch(const Form& w, const Activations& x, std::uint32_t lane,
                            float (&sums)[4]) {
  float of_stretch[4] = {};
#pragma unroll
  for (std::uint32_t b = 0; b < kBlocks; ++b) {
    std::uint32_t weights[4];
    w.fragment(b, weights);
    const uint4& words = x.words[b / 2];
    const std::uint32_t low = b % 2 == 0 ? words.x : words.z;
    const std::uint32_t high = b % 2 == 0 ? words.y : words.w;
    if constexpr (Form::kMinimumsBytes > 0) {
      std::int32_t first[4] = {kNoSum, kNoSum, kNoSum, kNoSum};
      std::int32_t second[4] = {kNoSum, kNoSum, kNoSum, kNoSum};
      mma_int8(first, weights, {low, 0});
      mma_int8(second, weights, {0, high});
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        const bool below = i >= 2;  // row g + 8
        const float4& of_halves = w.scales[b];
        float& sum = of_stretch[i];
        sum = fmaf(below ? of_halves.y : of_halves.x, sum_value(first[i]), sum);
        sum = fmaf(below ? of_halves.w : of_halves.z, sum_value(second[i]), sum);
        const float minimum = below ? w.minimums[b].y : w.minimums[b].x;
        sum = fmaf(-minimum, part(x.sums[i % 2], b), sum);
      }
    } else {
      std::int32_t products[4] = {kNoSum, kNoSum, kNoSum, kNoSum};
      mma_int8(products, weights, {low, high});
      const std::uint32_t pair =
          __shfl_sync(kAllLanes, w.scales, static_cast<int>((lane & ~3u) | b));
      const float scale = half_to_float(static_cast<std::uint16_t>(pair & 0xFFFFu));
      const float below = half_to_float(static_cast<std::uint16_t>(pair >> 16));
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        of_stretch[i] = fmaf(i < 2 ? scale : below, sum_value(products[i]), of_stretch[i]);
      }
    }
  }
#pragma unroll
  for (std::uint32_t i = 0; i < 4; ++i) sums[i] = fmaf(x.scales[i % 2], of_stretch[i], sums[i]);
}

// A block 32 outputs of a tile of rows; its warps take stretches in turn, and the weights of those
// that come next are on their way meanwhile, the first of them before other kernels have ended.
template <class Form, std::uint32_t kColumnTiles>
__global__ void __launch_bounds__(kProductThreads, Form::kOfProcessor)
    int8_matmul_kernel(Int8MatmulArgs a) {
  let_next_start();
  __shared__ float memory[kProductWarps][2 * kColumnTiles * 4 * kWarp];
  const ProductTile at = product_tile(a, blockIdx.x);
  const Product& product = a.products[at.product];
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t warp = threadIdx.x / kWarp;
  const std::uint32_t first_row = blockIdx.y * 8 * kColumnTiles;
  const std::uint32_t stretch_count = stretches(a.inputs);
  const std::size_t tile_blocks = std::size_t{stretch_count} * kBlocks;
  const PackedLayout layout = packed_layout(a.type, product.outputs, a.inputs);

  PackedTile tiles[2];
#pragma unroll
  for (std::uint32_t m = 0; m < 2; ++m) {
    const std::size_t tile = at.first_output / 16 + m;
    tiles[m] = {product.weight + tile * tile_blocks * Form::kNumbersBytes,
                product.weight + layout.scales + tile * tile_blocks * Form::kScalesBytes,
                product.weight + layout.minimums + tile * tile_blocks * Form::kMinimumsBytes,
                tile * 16 < product.outputs};
  }

  const auto load = [&](std::uint32_t stretch, Form(&weights)[2]) {
#pragma unroll
    for (std::uint32_t m = 0; m < 2; ++m) {
      if (tiles[m].exists && stretch < stretch_count) {
        weights[m].load(tiles[m], std::size_t{stretch} * kBlocks, lane);
      } else {
        weights[m].clear();
      }
    }
  };

  float sums[2][kColumnTiles][4] = {};
  constexpr std::uint32_t kAhead = kColumnTiles < 4 ? Form::kAhead : Form::kAheadWide;
  constexpr bool kFirst = kColumnTiles < 4 && kAhead > 0;
  Form weights[kAhead + 1][2];  // those in work and, behind them, those on their way
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
        load_activations<Form>(a, first_row + n * 8, stretch, lane, some[n]);
      }
    }
    load(stretch + kAhead * kProductWarps, weights[kAhead]);
#pragma unroll
    for (std::uint32_t n = 0; n < kColumnTiles; ++n) {
      Activations& x = some[kFirst ? n : 0];
      if (!kFirst) load_activations<Form>(a, first_row + n * 8, stretch, lane, x);
#pragma unroll
      for (std::uint32_t m = 0; m < 2; ++m) add_stretch(weights[0][m], x, lane, sums[m][n]);
    }
  }
  write_tile<kColumnTiles>(product, at.first_output, first_row, a.rows, sums, memory);
}

template <class Form>
cudaError_t run(const Int8MatmulArgs& args, cudaStream_t stream) {
  const std::uint32_t tiles = product_tile_count(args);
  if (args.rows <= 8) {
    return launch(int8_matmul_kernel<Form, 1>, dim3(tiles), kProductThreads, stream, args);
  }
  if (args.rows <= 16) {
    return launch(int8_matmul_kernel<Form, 2>, dim3(tiles), kProductThreads, stream, args);
  }
  return launch(int8_matmul_kernel<Form, 4>, dim3(tiles, ceil_div(args.rows, 32)), kProductThreads,
                stream, args);
}

}  // namespace

cudaError_t int8_matmul(const Int8MatmulArgs& args, cudaStream_t stream) {
  if (is_float(args.type)) return cudaErrorInvalidValue;
  switch (packed_form(args.type)) {
    case PackedForm::bytes:
      return run<InBytes>(args, stream);
    case PackedForm::nibbles:
      return run<Nibbles>(args, stream);
    case PackedForm::with_lines:
      return run<Lines>(args, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace edgedraft::cuda
