#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;

// A thread a pair of numbers.
__global__ void rope_kernel(RopeArgs a) {
  take_turn();
  const std::uint32_t pair = blockIdx.x * kThreads + threadIdx.x;
  if (pair >= a.cols / 2) return;
  const std::uint32_t r = blockIdx.y;
  const std::uint32_t half = a.head_dim / 2;
  const std::uint32_t i = pair % half;
  const float* cosines = a.cos_sin.data + a.positions[r] * a.cos_sin.stride;
  const float c = cosines[i];
  const float s = cosines[half + i];

  const std::uint32_t head = pair / half * a.head_dim;
  const std::uint32_t first = head + (a.pairs ? 2 * i : i);
  const std::uint32_t second = head + (a.pairs ? 2 * i + 1 : half + i);
  float* x = a.x.data + r * a.x.stride;
  const float u = x[first];
  const float v = x[second];
  const float rotated_u = u * c - v * s;
  const float rotated_v = v * c + u * s;
  x[first] = rotated_u;
  x[second] = rotated_v;
  if (a.cache.data != nullptr) {
    std::byte* row = cache_row(a.cache, a.first_slot + r);
    set_cache_number(a.cache.type, row, first, rotated_u);
    set_cache_number(a.cache.type, row, second, rotated_v);
  }
}

}  // namespace

cudaError_t rope(const RopeArgs& args, cudaStream_t stream) {
  return launch(rope_kernel, dim3(ceil_div(args.cols / 2, kThreads), args.rows), kThreads, stream,
                args);
}

}  // namespace edgedraft::cuda
