#include "kernels/cuda/experts.cuh"
#include "kernels/cuda/products.cuh"
#include "kernels/cuda/weight_types.cuh"

namespace edgedraft::cuda {
namespace {

// One warp per output of a tile of pairs; sums as in plain_matmul_kernel.
__global__ void __launch_bounds__(kProductThreads) expert_matmul_kernel(ExpertMatmulArgs a) {
  take_turn();
  const ExpertProduct& p = a.product;
  const ExpertTile tile = expert_tile(p, blockIdx.y);
  const std::uint32_t output = blockIdx.x * kProductWarps + threadIdx.x / kWarp;
  if (tile.count == 0 || output >= p.outputs) return;
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::byte* weight =
      p.weight + tile.expert * p.expert_bytes + output * row_bytes(p.type, p.inputs);
  const float* x[kExpertTilePairs];
#pragma unroll
  for (std::uint32_t i = 0; i < kExpertTilePairs; ++i) {
    const std::size_t pair = pair_at(p, tile.first + (i < tile.count ? i : 0));
    x[i] = a.x.data + pair / p.pairs_a_row * a.x.stride;
  }

  float sums[kExpertTilePairs] = {};
#pragma unroll 4
  for (std::uint32_t k = lane; k < p.inputs; k += kWarp) {
    const float w = decoded(p.type, weight, k);
#pragma unroll
    for (std::uint32_t i = 0; i < kExpertTilePairs; ++i) {
      if (i < tile.count) sums[i] = fmaf(x[i][k], w, sums[i]);
    }
  }
#pragma unroll
  for (std::uint32_t i = 0; i < kExpertTilePairs; ++i) {
    if (i >= tile.count) break;
    float sum = warp_sum(sums[i]);
    if (lane != 0) continue;
    if (p.bias != nullptr) sum += p.bias[std::size_t{tile.expert} * p.outputs + output];
    p.y.data[pair_at(p, tile.first + i) * p.y.stride + output] = sum;
  }
}

}  // namespace

cudaError_t expert_matmul(const ExpertMatmulArgs& args, cudaStream_t stream) {
  return launch(expert_matmul_kernel,
                dim3(ceil_div(args.product.outputs, kProductWarps), args.product.tile_count),
                kProductThreads, stream, args);
}

}  // namespace edgedraft::cuda
