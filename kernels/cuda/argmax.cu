#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kNumbersAThread = 16;
constexpr std::uint32_t kColumnsABlock = kThreads * kNumbersAThread;

// One block per segment of a row; the largest key wins in any block order.
__global__ void argmax_kernel(ArgmaxArgs a) {
  take_turn();
  __shared__ std::uint64_t memory[kThreads / kWarp];
  const float* x = a.logits.data + blockIdx.y * a.logits.stride;
  std::uint64_t best = 0;
  for (std::uint32_t n = 0; n < kNumbersAThread; ++n) {
    const std::uint32_t i = blockIdx.x * kColumnsABlock + n * kThreads + threadIdx.x;
    if (i >= a.cols) break;
    const std::uint64_t key = choice_key(x[i], i);
    best = key > best ? key : best;
  }
  for (std::uint32_t distance = kWarp / 2; distance > 0; distance /= 2) {
    const std::uint64_t other = __shfl_xor_sync(kAllLanes, best, static_cast<int>(distance));
    best = other > best ? other : best;
  }
  if (threadIdx.x % kWarp == 0) memory[threadIdx.x / kWarp] = best;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const std::uint64_t key : memory) best = key > best ? key : best;
  atomicMax(reinterpret_cast<unsigned long long*>(&a.keys[blockIdx.y]), best);
}

}  // namespace

cudaError_t argmax(const ArgmaxArgs& args, cudaStream_t stream) {
  return launch(argmax_kernel, dim3(ceil_div(args.cols, kColumnsABlock), args.rows), kThreads,
                stream, args);
}

}  // namespace edgedraft::cuda
