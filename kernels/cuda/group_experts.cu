#include "kernels/cuda/experts.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kStaged = 4096;  // choices in shared memory at a time

struct GroupJob {
  GroupExpertsArgs args;
  std::uint32_t threads;
};

// One block; thread e collects the pairs of expert e. No atomics, so the order is fixed.
__global__ void __launch_bounds__(kExpertsMax) group_experts_kernel(GroupJob job) {
  take_turn();
  __shared__ std::uint16_t chosen[kStaged];
  // Per expert, pairs and tiles of it and of all before.
  __shared__ std::uint32_t pair_ends[kExpertsMax];
  __shared__ std::uint32_t tile_ends[kExpertsMax];
  const GroupExpertsArgs& a = job.args;
  const std::uint32_t e = threadIdx.x;
  const auto each_pair = [&](const auto& visit) {
    for (std::uint32_t first = 0; first < a.choice.pairs; first += kStaged) {
      const std::uint32_t left = a.choice.pairs - first;
      const std::uint32_t count = left < kStaged ? left : kStaged;
      __syncthreads();
      for (std::uint32_t i = e; i < count; i += job.threads) {
        chosen[i] = static_cast<std::uint16_t>(expert_of(a.choice, first + i));
      }
      __syncthreads();
      for (std::uint32_t i = 0; i < count; ++i) {
        if (chosen[i] == e) visit(first + i);
      }
    }
  };

  std::uint32_t count = 0;
  each_pair([&](std::uint32_t) { ++count; });
  const std::uint32_t tile_count = ceil_div(count, kExpertTilePairs);
  pair_ends[e] = count;
  tile_ends[e] = tile_count;
  __syncthreads();
  for (std::uint32_t distance = 1; distance < job.threads; distance *= 2) {
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
  for (std::uint32_t i = tile_ends[job.threads - 1] + e; i < a.tile_count; i += job.threads) {
    a.tiles[i] = {0, 0, 0};
  }
  std::uint32_t found = first;
  each_pair([&](std::uint32_t pair) { a.order[found++] = pair; });
}

}  // namespace

cudaError_t group_experts(const GroupExpertsArgs& args, cudaStream_t stream) {
  const std::uint32_t threads = ceil_div(args.choice.count, kWarp) * kWarp;
  return launch(group_experts_kernel, dim3(1), threads, stream, GroupJob{args, threads});
}

}  // namespace edgedraft::cuda
