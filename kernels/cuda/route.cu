#include "kernels/cuda/device.cuh"
#include "kernels/cuda/experts.h"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 128;
static_assert(kExpertsUsedMax <= kWarp);

// One warp per row. Keys differ, so the next choice is the largest key below the last. Lane u holds
// choice u.
__global__ void route_kernel(RouteArgs a) {
  take_turn();
  const std::size_t row = blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= a.rows) return;
  const std::uint32_t lane = threadIdx.x % kWarp;
  const float* logits = a.logits.data + row * a.logits.stride;
  std::uint64_t last = ~std::uint64_t{0};
  std::uint32_t mine = 0;
  for (std::uint32_t u = 0; u < a.used; ++u) {
    std::uint64_t best = 0;
    for (std::uint32_t e = lane; e < a.count; e += kWarp) {
      const std::uint64_t key = choice_key(logits[e], e);
      if (key < last && key > best) best = key;
    }
    for (std::uint32_t distance = kWarp / 2; distance > 0; distance /= 2) {
      const std::uint64_t other = __shfl_xor_sync(kAllLanes, best, static_cast<int>(distance));
      best = other > best ? other : best;
    }
    last = best;
    if (lane == u) mine = ~static_cast<std::uint32_t>(best);
  }
  const float logit = logits[mine];
  const float term = expf(logit - __shfl_sync(kAllLanes, logit, 0));
  float sum = 0.0f;
  for (std::uint32_t u = 0; u < a.used; ++u) {
    sum += __shfl_sync(kAllLanes, term, static_cast<int>(u));
  }
  if (lane >= a.used) return;
  a.experts.data[row * a.experts.stride + lane] = static_cast<float>(mine);
  a.weights.data[row * a.weights.stride + lane] = term / sum;
}

}  // namespace

cudaError_t route(const RouteArgs& args, cudaStream_t stream) {
  return launch(route_kernel, dim3(ceil_div(args.rows, kThreads / kWarp)), kThreads, stream, args);
}

}  // namespace edgedraft::cuda
