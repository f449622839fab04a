#include "kernels/cuda/int8_products.cuh"

namespace edgedraft::cuda {
namespace {

using namespace int8_detail;

// For column tiles of 1, 2 and 4 times 8 rows: groups in flight, and blocks per multiprocessor,
// both limited by registers. Groups use a ring if that was faster on an H100. The loop is then
// unrolled per ring position, which avoids moves that would wait for loads in flight.
struct Tuning {
  std::uint32_t ahead;
  int blocks;
  bool ring;
};
__host__ __device__ constexpr Tuning tuning(DType type, std::uint32_t column_tiles) {
  const bool is_wide = column_tiles == 4;
  switch (type) {
    case DType::q4_0:
      return {is_wide ? 0u : column_tiles == 1 ? 2u : 1u, 2, true};
    case DType::q8_0:
    case DType::q5_0:
    case DType::iq4_nl:
    case DType::mxfp4:
      return {is_wide ? 0u : 1u, 2, false};
    default:
      return {is_wide ? 0u : 1u, column_tiles == 1 ? 2 : 1, false};
  }
}

// A group's activations in the rows of one column tile.
struct Activations {
  uint4 words[2];   // row g: fragments b of four blocks
  float scales[2];  // scales of rows 2 t and 2 t + 1, in units of the weights
  float4 sums[2];   // per block of these rows, for minimums
};

template <class Weights>
__device__ void load_activations(const Int8MatmulArgs& a, std::uint32_t first_row,
                                 std::uint32_t group, std::uint32_t lane, Activations& x) {
  // A group's rows are adjacent, so other column tiles are at a fixed offset.
  const std::size_t at = std::size_t{group} * a.rows + first_row;
  x.words[0] = x.words[1] = make_uint4(0, 0, 0, 0);
  if (first_row + lane / 4 < a.rows) {
    const auto* words =
        reinterpret_cast<const uint4*>(a.values + at * kGroup) + lane / 4 * 8 + lane % 4 * 2;
    x.words[0] = words[0];
    x.words[1] = words[1];
  }
  const std::size_t column = at + lane % 4 * 2;
  for (std::uint32_t i = 0; i < 2; ++i) {
    const bool exists = first_row + lane % 4 * 2 + i < a.rows;
    x.scales[i] = exists ? a.scales[column + i] * Weights::unit(a.codes) : 0.0f;
    if constexpr (Weights::kHasSums) {
      x.sums[i] =
          exists ? reinterpret_cast<const float4*>(a.sums)[column + i] : make_float4(0, 0, 0, 0);
    }
  }
}

__device__ inline float part(const float4& v, std::uint32_t i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// sums += the group's products, in block order.
template <class Weights>
__device__ void add_group(const Weights& w, const BlockScales (&scales)[kBlocks],
                          const Activations& x, const Codes& codes, float (&sums)[4]) {
  float of_group[4] = {};
#pragma unroll
  for (std::uint32_t b = 0; b < kBlocks; ++b) {
    std::uint32_t weights[4];
    w.fragment(b, codes, weights);
    const uint4& words = x.words[b / 2];
    const float of_rows[2] = {part(x.sums[0], b), part(x.sums[1], b)};
    add_block<Weights>(weights, scales[b], b % 2 == 0 ? words.x : words.z,
                       b % 2 == 0 ? words.y : words.w, of_rows, of_group);
  }
#pragma unroll
  for (std::uint32_t i = 0; i < 4; ++i) sums[i] = fmaf(x.scales[i % 2], of_group[i], sums[i]);
}

// The scales of all blocks of a group.
template <class Weights>
__device__ void read_scales(const Weights& w, std::uint32_t lane, BlockScales (&all)[kBlocks]) {
#pragma unroll
  for (std::uint32_t b = 0; b < kBlocks; ++b) w.read_scales(lane, b, all[b]);
}

// One block per 32 outputs of a tile of rows; its warps take groups in turn. The next weights are
// in flight meanwhile, the first of them before earlier kernels end.
template <DType kType, std::uint32_t kColumnTiles>
__global__ void __launch_bounds__(kProductThreads, tuning(kType, kColumnTiles).blocks)
    int8_matmul_kernel(Int8MatmulArgs a) {
  let_next_start();
  using Group = Weights<kType>;
  __shared__ float memory[kProductWarps][2 * kColumnTiles * 4 * kWarp];
  const ProductTile at = product_tile<kTileOutputs>(a, blockIdx.x);
  const Product& product = a.products[at.product];
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t warp = threadIdx.x / kWarp;
  const std::uint32_t first_row = blockIdx.y * 8 * kColumnTiles;
  const std::uint32_t group_count = groups(a.inputs);
  const PackedLayout layout = packed_layout(kType, product.outputs, a.inputs);

  PackedTile tiles[2];
#pragma unroll
  for (std::uint32_t m = 0; m < 2; ++m) {
    // The layout of all earlier tiles gives the offsets of this tile's parts.
    const PackedLayout before = packed_layout(kType, at.first_output + m * 16, a.inputs);
    tiles[m] = {product.weight + before.rest,
                product.weight + layout.rest + (before.scales - before.rest),
                product.weight + layout.scales + (before.factors - before.scales),
                product.weight + layout.factors + (before.total - before.factors),
                at.first_output + m * 16 < product.outputs};
  }

  const auto load = [&](std::uint32_t group, Group(&weights)[2]) {
#pragma unroll
    for (std::uint32_t m = 0; m < 2; ++m) {
      if (tiles[m].exists && group < group_count) {
        weights[m].load(tiles[m], group, lane);
      } else {
        weights[m].clear();
      }
    }
  };

  float sums[2][kColumnTiles][4] = {};
  constexpr std::uint32_t kAhead = tuning(kType, kColumnTiles).ahead;
  constexpr bool kFirst = kColumnTiles < 4 && kAhead > 0;
  // Adds a group, and prefetches the one `kAhead` - 1 steps later.
  const auto add = [&](std::uint32_t group, const Group(&now)[2], Group(&next)[2]) {
    // Activations before later weights: they are needed sooner.
    Activations some[kFirst ? kColumnTiles : 1];
    if (kFirst) {
#pragma unroll
      for (std::uint32_t n = 0; n < kColumnTiles; ++n) {
        load_activations<Group>(a, first_row + n * 8, group, lane, some[n]);
      }
    }
    load(group + kAhead * kProductWarps, next);
    // Unpacked once for all rows if that takes arithmetic. A float16 pair is reloaded per column
    // tile, since registers are scarce.
    constexpr bool kOnce = Group::kHalves;
    BlockScales scales[2][kBlocks];
    if (kOnce) {
#pragma unroll
      for (std::uint32_t m = 0; m < 2; ++m) read_scales(now[m], lane, scales[m]);
    }
#pragma unroll
    for (std::uint32_t n = 0; n < kColumnTiles; ++n) {
      Activations& x = some[kFirst ? n : 0];
      if (!kFirst) load_activations<Group>(a, first_row + n * 8, group, lane, x);
#pragma unroll
      for (std::uint32_t m = 0; m < 2; ++m) {
        if (!kOnce) read_scales(now[m], lane, scales[m]);
        add_group(now[m], scales[m], x, a.codes, sums[m][n]);
      }
    }
  };
  Group weights[kAhead + 1][2];
  if constexpr (tuning(kType, kColumnTiles).ring) {
#pragma unroll
    for (std::uint32_t i = 0; i != kAhead; ++i) load(warp + i * kProductWarps, weights[i]);
    wait_for_previous_kernel();
    for (std::uint32_t group = warp; group < group_count;) {
#pragma unroll
      for (std::uint32_t i = 0; i <= kAhead; ++i) {
        if (group >= group_count) break;
        add(group, weights[i], weights[(i + kAhead) % (kAhead + 1)]);
        group += kProductWarps;
      }
    }
  } else {
    static_assert(kAhead < 2);
    if (kAhead > 0) load(warp, weights[kAhead]);
    wait_for_previous_kernel();
    for (std::uint32_t group = warp; group < group_count; group += kProductWarps) {
      weights[0][0] = weights[kAhead][0];
      weights[0][1] = weights[kAhead][1];
      add(group, weights[0], weights[kAhead]);
    }
  }
  write_tile<kColumnTiles>(product, at.first_output, first_row, a.rows, sums, memory);
}

template <DType kType>
cudaError_t run(const Int8MatmulArgs& args, cudaStream_t stream) {
  const std::uint32_t tiles = product_tile_count(args, kTileOutputs);
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

cudaError_t narrow_int8_matmul(const Int8MatmulArgs& args, cudaStream_t stream) {
  return for_packing_of(args.type,
                        [&](auto type) { return run<decltype(type)::value>(args, stream); });
}

cudaError_t int8_matmul(const Int8MatmulArgs& args, cudaStream_t stream) {
  Int8MatmulArgs all = args;
  if (is_coded(args.type)) all.codes = codes_of(args.type);
  const ProductKernel kernel = product_kernel(args);
  return kernel == ProductKernel::narrow ? narrow_int8_matmul(all, stream)
                                         : wide_int8_matmul(all, kernel, stream);
}

}  // namespace edgedraft::cuda
