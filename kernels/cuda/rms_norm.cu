#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 512;

// A block a row: read twice, the second time from cache.
__global__ void rms_norm_kernel(RmsNormArgs a) {
  __shared__ float memory[kThreads / kWarp];
  const float* x = a.x.data + blockIdx.x * a.x.stride;
  float* y = a.y.data + blockIdx.x * a.y.stride;

  float sum = 0.0f;
  for (std::uint32_t i = threadIdx.x; i < a.cols; i += kThreads) sum = fmaf(x[i], x[i], sum);
  sum = block_sum<kThreads>(sum, memory);
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(a.cols) + a.epsilon);

  for (std::uint32_t i = threadIdx.x; i < a.cols; i += kThreads) y[i] = x[i] * scale * a.weight[i];
}

}  // namespace

cudaError_t rms_norm(const RmsNormArgs& args, cudaStream_t stream) {
  return launch(rms_norm_kernel, dim3(args.rows), kThreads, stream, args);
}

}  // namespace edgedraft::cuda
