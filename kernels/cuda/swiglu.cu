#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;

// A thread a number.
__global__ void swiglu_kernel(SwigluArgs a) {
  take_turn();
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= a.cols) return;
  const std::size_t r = blockIdx.y;
  const float gate = a.gate.data[r * a.gate.stride + i];
  a.y.data[r * a.y.stride + i] = gate / (1.0f + expf(-gate)) * a.up.data[r * a.up.stride + i];
}

}  // namespace

cudaError_t swiglu(const SwigluArgs& args, cudaStream_t stream) {
  return launch(swiglu_kernel, dim3(ceil_div(args.cols, kThreads), args.rows), kThreads, stream,
                args);
}

}  // namespace edgedraft::cuda
