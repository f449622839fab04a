#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;

// One thread per element.
__global__ void store_kernel(StoreArgs a) {
  take_turn();
  const std::uint32_t i = blockIdx.y * kThreads + threadIdx.x;
  if (i >= a.cols) return;
  const StorePart& part = a.part;
  const std::uint32_t r = blockIdx.x;
  const std::size_t element = a.type == DType::f32 ? 4 : 2;
  set_cache_number(a.type, part.data + a.places[r] * part.stride * element, i,
                   part.x.data[r * part.x.stride + i]);
}

}  // namespace

cudaError_t store(const StoreArgs& args, cudaStream_t stream) {
  return launch(store_kernel, dim3(args.rows, ceil_div(args.cols, kThreads)), kThreads, stream,
                args);
}

}  // namespace edgedraft::cuda
