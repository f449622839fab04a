#include "kernels/cuda/device.cuh"
#include "kernels/cuda/experts.h"

namespace edgedraft::cuda {
namespace {

__device__ std::uint32_t expert_of(const GroupExpertsArgs& a, std::uint32_t pair) {
  const float choice = a.experts.data[pair / a.used * a.experts.stride + pair % a.used];
  const auto expert = static_cast<std::uint32_t>(fmaxf(choice, 0.0f));
  return expert < a.count ? expert : a.count - 1;
}

// One block; thread e collects the pairs of expert e. No atomics, so the order is fixed.
__global__ void __launch_bounds__(kExpertsMax) group_experts_kernel(GroupExpertsArgs a) {
  take_turn();
  // Per expert, pairs and tiles of it and of all before.
  __shared__ std::uint32_t pair_ends[kExpertsMax];
  __shared__ std::uint32_t tile_ends[kExpertsMax];
  const std::uint32_t e = threadIdx.x;
  const std::uint32_t pairs = a.rows * a.used;
  std::uint32_t count = 0;
  for (std::uint32_t pair = 0; pair < pairs; ++pair) count += expert_of(a, pair) == e ? 1 : 0;
  const std::uint32_t tile_count = ceil_div(count, kExpertTilePairs);
  pair_ends[e] = count;
  tile_ends[e] = tile_count;
  __syncthreads();
  for (std::uint32_t distance = 1; distance < kExpertsMax; distance *= 2) {
    const std::uint32_t more_pairs = e >= distance ? pair_ends[e - distance] : 0;
    const std::uint32_t more_tiles = e >= distance ? tile_ends[e - distance] : 0;
    __syncthreads();
    pair_ends[e] += more_pairs;
    tile_ends[e] += more_tiles;
    __syncthreads();
  }
  const std::uint32_t first = pair_ends[e] - count;
  ExpertTile* const tiles = a.tiles + (tile_ends[e] - tile_count);
  for (std::uint32_t i = 0; i < tile_count; ++i) {
    const std::uint32_t left = count - i * kExpertTilePairs;
    tiles[i] = {e, first + i * kExpertTilePairs, left < kExpertTilePairs ? left : kExpertTilePairs};
  }
  for (std::uint32_t i = tile_ends[kExpertsMax - 1] + e; i < a.tile_count; i += kExpertsMax) {
    a.tiles[i] = {0, 0, 0};
  }
  if (count == 0) return;
  std::uint32_t found = first;
  for (std::uint32_t pair = 0; pair < pairs; ++pair) {
    if (expert_of(a, pair) == e) a.order[found++] = pair;
  }
}

}  // namespace

cudaError_t group_experts(const GroupExpertsArgs& args, cudaStream_t stream) {
  return launch(group_experts_kernel, dim3(1), kExpertsMax, stream, args);
}

}  // namespace edgedraft::cuda
