#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;

// One thread per element.
__global__ void scale_kernel(ScaleArgs a) {
  take_turn();
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= a.cols) return;
  float* x = a.x.data + std::size_t{blockIdx.y} * a.x.stride + i;
  *x *= a.factor;
}

}  // namespace

cudaError_t scale(const ScaleArgs& args, cudaStream_t stream) {
  return launch(scale_kernel, dim3(ceil_div(args.cols, kThreads), args.rows), kThreads, stream,
                args);
}

}  // namespace edgedraft::cuda
