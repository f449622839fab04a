#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 128;

// One thread per column, so that the moves of each column keep their order.
__global__ void compact_kernel(CompactArgs a) {
  take_turn();
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= a.cols) return;
  for (std::uint32_t move = 0; move < a.slot_count; ++move) {
    const std::byte* from = cache_row(a.cache, a.slots[move]);
    std::byte* to = cache_row(a.cache, a.first + move);
    if (a.cache.type == DType::f32) {
      reinterpret_cast<float*>(to)[i] = reinterpret_cast<const float*>(from)[i];
    } else if (a.cache.type == DType::i8) {
      const std::size_t block = cache_bytes(DType::i8, i / kInt8Block * kInt8Block);
      const std::size_t level = block + sizeof(float) + i % kInt8Block;
      to[level] = from[level];
      if (i % kInt8Block != 0) continue;
      *reinterpret_cast<float*>(to + block) = *reinterpret_cast<const float*>(from + block);
    } else {
      reinterpret_cast<std::uint16_t*>(to)[i] = reinterpret_cast<const std::uint16_t*>(from)[i];
    }
  }
}

}  // namespace

cudaError_t compact(const CompactArgs& args, cudaStream_t stream) {
  return launch(compact_kernel, dim3(ceil_div(args.cols, kThreads)), kThreads, stream, args);
}

}  // namespace edgedraft::cuda
