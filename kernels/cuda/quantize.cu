#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 128;
constexpr std::uint32_t kNumbersALane = kStretch / kWarp;

// Below this a stretch counts as zeros: its inverse would overflow.
constexpr float kSmallest = 7.888609052210118e-31f;  // 2^-100

// A warp a stretch of a row, four numbers a lane. The order of the bytes is that of a lane's
// fragments (mma.cuh): bytes 4 t.. and 16 + 4 t.. of each of four blocks stand together.
__global__ void quantize_kernel(QuantizeArgs a) {
  take_turn();
  const std::uint32_t stretch = blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp;
  const std::uint32_t stretch_count = stretches(a.cols);
  if (stretch >= stretch_count) return;
  const std::size_t r = blockIdx.y;
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t first = stretch * kStretch + lane * kNumbersALane;
  const float* row = a.x.data + r * a.x.stride;

  float x[kNumbersALane];
  float largest = 0.0f;
  float poison = 0.0f;  // NaN where a number is infinite or NaN
  for (std::uint32_t i = 0; i < kNumbersALane; ++i) {
    x[i] = first + i < a.cols ? row[first + i] : 0.0f;
    largest = fmaxf(largest, fabsf(x[i]));
    poison += x[i] * 0.0f;
  }
  largest = warp_max(largest);
  poison = warp_sum(poison);
  const bool is_zero = largest < kSmallest;
  const float inverse = is_zero ? 0.0f : 127.0f / largest;

  std::uint32_t bytes = 0;
  std::int32_t sum = 0;
  for (std::uint32_t i = 0; i < kNumbersALane; ++i) {
    const float level = rintf(x[i] * inverse);
    // What is not finite leaves any number: the scale tells.
    const auto q = static_cast<std::int32_t>(fminf(fmaxf(level, -127.0f), 127.0f));
    bytes |= (static_cast<std::uint32_t>(q) & 255u) << (8 * i);
    sum += q;
  }
  sum = warp_sum(sum, 8);

  const std::uint32_t block = lane / 8;
  const std::uint32_t half = lane % 8 / 4;
  const std::uint32_t t = lane % 4;
  const std::size_t index = std::size_t{stretch} * a.rows + r;
  auto* words = reinterpret_cast<std::uint32_t*>(a.values + index * kStretch);
  words[t * 8 + block * 2 + half] = bytes;
  if (lane % 8 == 0) a.sums[index * 4 + block] = static_cast<float>(sum);
  if (lane == 0) a.scales[index] = (is_zero ? 0.0f : largest / 127.0f) + poison;
}

}  // namespace

cudaError_t quantize(const QuantizeArgs& args, cudaStream_t stream) {
  return launch(quantize_kernel, dim3(ceil_div(stretches(args.cols), kThreads / kWarp), args.rows),
                kThreads, stream, args);
}

}  // namespace edgedraft::cuda
