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
  set_cache_number(a.type, part.data + cache_bytes(a.type, a.places[r] * part.stride), i,
                   part.x.data[r * part.x.stride + i]);
}

// One warp per block of int8; missing elements of the last one are zero.
__global__ void store_int8_kernel(StoreArgs a) {
  static_assert(kInt8Block == kWarp);
  take_turn();
  const std::uint32_t i = blockIdx.y * kThreads + threadIdx.x;
  const std::uint32_t lane = i % kWarp;
  if (i - lane >= a.cols) return;
  const StorePart& part = a.part;
  const std::uint32_t r = blockIdx.x;
  const float x = i < a.cols ? part.x.data[r * part.x.stride + i] : 0.0f;
  // Non-negative floats order like their bits.
  const float largest = __uint_as_float(warp_max(__float_as_uint(x) & 0x7FFFFFFFu));
  const bool is_finite = __float_as_uint(largest) < 0x7F800000u;
  const bool is_zero = !is_finite || largest < kInt8Smallest;
  const float scale = is_zero ? 0.0f : fminf(largest / 127.0f, kInt8ScaleMax);
  std::byte* block =
      part.data + cache_bytes(DType::i8, a.places[r] * part.stride) + i / kWarp * kInt8BlockBytes;
  const float level = is_zero ? 0.0f : rintf(x / scale);
  block[sizeof scale + lane] = static_cast<std::byte>(static_cast<std::int8_t>(level));
  if (lane != 0) return;
  *reinterpret_cast<float*>(block) = is_finite ? scale : __uint_as_float(0x7FC00000u);
}

}  // namespace

cudaError_t store(const StoreArgs& args, cudaStream_t stream) {
  return launch(args.type == DType::i8 ? store_int8_kernel : store_kernel,
                dim3(args.rows, ceil_div(args.cols, kThreads)), kThreads, stream, args);
}

}  // namespace edgedraft::cuda
