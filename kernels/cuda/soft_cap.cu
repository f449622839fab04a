#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;

// One thread per element.
__global__ void soft_cap_kernel(SoftCapArgs a) {
  take_turn();
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= a.cols) return;
  float* x = a.x.data + std::size_t{blockIdx.y} * a.x.stride + i;
  *x = a.cap * tanhf(*x / a.cap);
}

}  // namespace

cudaError_t soft_cap(const SoftCapArgs& args, cudaStream_t stream) {
  return launch(soft_cap_kernel, dim3(ceil_div(args.cols, kThreads), args.rows), kThreads, stream,
                args);
}

}  // namespace edgedraft::cuda
