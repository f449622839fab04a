#include "kernels/cuda/experts.cuh"
#include "kernels/cuda/int8_products.cuh"

namespace edgedraft::cuda {
namespace {

using namespace int8_detail;
static_assert(kExpertTilePairs == 8);  // columns of a matrix instruction

// One block per 32 outputs of a tile of pairs; its warps take groups in turn, and the next weights
// are in flight meanwhile. A pair's sums have the order of int8_matmul.
template <DType kType>
__global__ void __launch_bounds__(kProductThreads)
    expert_int8_matmul_kernel(ExpertInt8MatmulArgs a) {
  take_turn();
  using Group = Weights<kType>;
  __shared__ float memory[kProductWarps][2 * 4 * kWarp];
  const ExpertProduct& p = a.product;
  const ExpertTile tile = expert_tile(p, blockIdx.y);
  if (tile.count == 0) return;
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t warp = threadIdx.x / kWarp;
  const std::uint32_t first_output = blockIdx.x * kTileOutputs;
  const std::uint32_t group_count = groups(p.inputs);
  const std::byte* weight = p.weight + tile.expert * p.expert_bytes;
  const PackedLayout layout = packed_layout(kType, p.outputs, p.inputs);

  PackedTile tiles[2];
#pragma unroll
  for (std::uint32_t m = 0; m < 2; ++m) {
    // The layout of all earlier tiles gives the offsets of this tile's parts.
    const PackedLayout before = packed_layout(kType, first_output + m * 16, p.inputs);
    tiles[m] = {weight + before.rest, weight + layout.rest + (before.scales - before.rest),
                weight + layout.scales + (before.factors - before.scales),
                weight + layout.factors + (before.total - before.factors),
                first_output + m * 16 < p.outputs};
  }
  // Rows of x: of column g, and of columns 2 t and 2 t + 1. Columns past the tile repeat its first.
  const auto row_of = [&](std::uint32_t column) {
    return pair_at(p, tile.first + (column < tile.count ? column : 0)) / p.pairs_a_row;
  };
  const std::size_t values_row = row_of(lane / 4);
  const std::size_t sums_rows[2] = {row_of(lane % 4 * 2), row_of(lane % 4 * 2 + 1)};

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

  float sums[2][1][4] = {};
  Group weights[2];
  Group next[2];
  load(warp, next);
  for (std::uint32_t group = warp; group < group_count; group += kProductWarps) {
    weights[0] = next[0];
    weights[1] = next[1];
    const std::size_t at = std::size_t{group} * a.x_rows;
    const auto* values =
        reinterpret_cast<const uint4*>(a.x.values + (at + values_row) * kGroup) + lane % 4 * 2;
    const uint4 words[2] = {values[0], values[1]};
    float scales[2];
    float4 block_sums[2] = {};
#pragma unroll
    for (std::uint32_t i = 0; i < 2; ++i) {
      scales[i] = a.x.scales[at + sums_rows[i]] * Group::unit(a.codes);
      if constexpr (Group::kHasSums) {
        block_sums[i] = reinterpret_cast<const float4*>(a.x.sums)[at + sums_rows[i]];
      }
    }
    load(group + kProductWarps, next);
#pragma unroll
    for (std::uint32_t m = 0; m < 2; ++m) {
      float of_group[4] = {};
#pragma unroll
      for (std::uint32_t b = 0; b < kBlocks; ++b) {
        std::uint32_t fragment[4];
        weights[m].fragment(b, a.codes, fragment);
        BlockScales block_scales;
        weights[m].read_scales(lane, b, block_scales);
        const auto part = [b](const float4& v) {
          return b == 0 ? v.x : b == 1 ? v.y : b == 2 ? v.z : v.w;
        };
        add_block<Group>(fragment, block_scales, word_of(words[b / 2], b % 2 * 2),
                         word_of(words[b / 2], b % 2 * 2 + 1),
                         {part(block_sums[0]), part(block_sums[1])}, of_group);
      }
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        sums[m][0][i] = fmaf(scales[i % 2], of_group[i], sums[m][0][i]);
      }
    }
  }
  add_warps<1>(sums, memory, [&](std::uint32_t output_of_tile, std::uint32_t column, float sum) {
    const std::uint32_t output = first_output + output_of_tile;
    if (output >= p.outputs || column >= tile.count) return;
    if (p.bias != nullptr) sum += p.bias[std::size_t{tile.expert} * p.outputs + output];
    p.y.data[pair_at(p, tile.first + column) * p.y.stride + output] = sum;
  });
}

template <DType kType>
cudaError_t run(const ExpertInt8MatmulArgs& args, cudaStream_t stream) {
  return launch(expert_int8_matmul_kernel<kType>,
                dim3(ceil_div(args.product.outputs, kTileOutputs), args.product.tile_count),
                kProductThreads, stream, args);
}

}  // namespace

cudaError_t expert_int8_matmul(const ExpertInt8MatmulArgs& args, cudaStream_t stream) {
  ExpertInt8MatmulArgs all = args;
  if (is_coded(args.product.type)) all.codes = codes_of(args.product.type);
  return for_packing_of(args.product.type,
                        [&](auto type) { return run<decltype(type)::value>(all, stream); });
}

}  // namespace edgedraft::cuda
