#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;

// One thread per element.
__global__ void add_bias_kernel(BiasArgs a) {
  take_turn();
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= a.cols) return;
  float& y = a.y.data[blockIdx.y * a.y.stride + i];
  y = (a.accumulate ? y : 0.0f) + a.bias[i];
}

}  // namespace

cudaError_t add_bias(const BiasArgs& args, cudaStream_t stream) {
  return launch(add_bias_kernel, dim3(ceil_div(args.cols, kThreads), args.rows), kThreads, stream,
                args);
}

}  // namespace edgedraft::cuda
