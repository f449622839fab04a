#include "kernels/cuda/device.cuh"
#include "kernels/cuda/experts.h"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 128;

// One thread per element.
__global__ void mix_kernel(MixArgs a) {
  take_turn();
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= a.cols) return;
  const std::size_t row = blockIdx.y;
  const float* x = a.x.data + row * a.used * a.x.stride + i;
  const float* weights = a.weights.data + row * a.weights.stride;
  float sum = 0.0f;
  for (std::uint32_t u = 0; u < a.used; ++u) sum = fmaf(weights[u], x[u * a.x.stride], sum);
  a.y.data[row * a.y.stride + i] += sum;
}

}  // namespace

cudaError_t mix(const MixArgs& args, cudaStream_t stream) {
  return launch(mix_kernel, dim3(ceil_div(args.cols, kThreads), args.rows), kThreads, stream, args);
}

}  // namespace edgedraft::cuda
