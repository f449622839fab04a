#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;

// A thread a pair of numbers, those of the parts one behind the other.
__global__ void rope_kernel(RopeArgs a) {
  take_turn();
  std::uint32_t pair = blockIdx.x * kThreads + threadIdx.x;
  std::uint32_t part = 0;
  while (pair >= a.cols[part] / 2) {
    pair -= a.cols[part] / 2;
    if (++part == kRopePartsMax) return;
  }
  const std::uint32_t r = blockIdx.y;
  const std::uint32_t half = a.head_dim / 2;
  const std::uint32_t i = pair % half;
  const float* cosines = a.cos_sin.data + a.positions[r] * a.cos_sin.stride;
  const float c = cosines[i];
  const float s = cosines[half + i];

  const std::uint32_t head = pair / half * a.head_dim;
  const std::uint32_t first = head + (a.pairs ? 2 * i : i);
  const std::uint32_t second = head + (a.pairs ? 2 * i + 1 : half + i);
  float* x = a.parts[part].data + r * a.parts[part].stride;
  const float u = x[first];
  const float v = x[second];
  x[first] = u * c - v * s;
  x[second] = v * c + u * s;
}

}  // namespace

cudaError_t rope(const RopeArgs& args, cudaStream_t stream) {
  std::uint32_t pairs = 0;
  for (const std::uint32_t cols : args.cols) pairs += cols / 2;
  return launch(rope_kernel, dim3(ceil_div(pairs, kThreads), args.rows), kThreads, stream, args);
}

}  // namespace edgedraft::cuda
