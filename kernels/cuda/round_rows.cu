#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;

// One thread per element.
__global__ void round_rows_kernel(RoundRowsArgs a) {
  take_turn();
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= a.cols) return;
  const std::size_t r = blockIdx.y;
  const float x = a.x.data[r * a.x.stride + i];
  std::uint16_t& y = a.y[r * a.cols + i];
  if (a.type == DType::bf16) {
    y = float_to_bfloat16(x);
  } else {
    y = float_to_limited_half(x);
  }
}

}  // namespace

cudaError_t round_rows(const RoundRowsArgs& args, cudaStream_t stream) {
  return launch(round_rows_kernel, dim3(ceil_div(args.cols, kThreads), args.rows), kThreads, stream,
                args);
}

}  // namespace edgedraft::cuda
