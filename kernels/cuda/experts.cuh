#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/experts.h"

// Shared by the matmuls of experts.
namespace edgedraft::cuda {

__device__ inline std::uint32_t expert_of(const ExpertChoice& c, std::uint32_t pair) {
  const float number = c.experts.data[pair / c.used * c.experts.stride + pair % c.used];
  const auto expert = static_cast<std::uint32_t>(fmaxf(number, 0.0f));
  return expert < c.count ? expert : c.count - 1;
}

// A block's tile, and the pairs in it.
__device__ inline ExpertTile expert_tile(const ExpertProduct& p, std::uint32_t index) {
  return p.order != nullptr ? p.tiles[index] : ExpertTile{expert_of(p.choice, index), index, 1};
}
__device__ inline std::uint32_t pair_at(const ExpertProduct& p, std::uint32_t place) {
  return p.order != nullptr ? p.order[place] : place;
}

}  // namespace edgedraft::cuda
