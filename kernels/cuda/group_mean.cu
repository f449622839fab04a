#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 128;

// One thread per column of a group.
__global__ void group_mean_kernel(GroupMeanArgs a) {
  take_turn();
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= a.cols) return;
  const std::size_t group = blockIdx.y;
  const float* x = a.x.data + group * a.group_rows * a.x.stride + i;
  float sum = 0.0f;
  for (std::uint32_t r = 0; r < a.group_rows; ++r) sum += x[r * a.x.stride];
  a.y.data[group * a.y.stride + i] = sum / static_cast<float>(a.group_rows);
}

}  // namespace

cudaError_t group_mean(const GroupMeanArgs& args, cudaStream_t stream) {
  return launch(group_mean_kernel, dim3(ceil_div(args.cols, kThreads), args.groups), kThreads,
                stream, args);
}

}  // namespace edgedraft::cuda
