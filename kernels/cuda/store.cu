#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;

// A thread a number.
__global__ void store_kernel(StoreArgs a) {
  take_turn();
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= a.cols) return;
  const std::uint32_t r = blockIdx.y;
  const std::uint32_t first = a.first_slot_now != nullptr ? *a.first_slot_now : a.first_slot;
  set_cache_number(a.cache.type, cache_row(a.cache, first + r), i, a.x.data[r * a.x.stride + i]);
}

}  // namespace

cudaError_t store(const StoreArgs& args, cudaStream_t stream) {
  return launch(store_kernel, dim3(ceil_div(args.cols, kThreads), args.rows), kThreads, stream,
                args);
}

}  // namespace edgedraft::cuda
