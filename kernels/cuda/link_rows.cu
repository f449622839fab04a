#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr float kLevels = 127.0f;
constexpr float kHalfMax = 65504.0f;

// A warp a group of columns of a row.
__global__ void link_rows_kernel(LinkRowsArgs a) {
  take_turn();
  const std::uint32_t group = blockIdx.x;
  const std::size_t r = blockIdx.y;
  const std::uint32_t begin = group == 0 ? 0 : a.group_ends[group - 1];
  const std::uint32_t end = a.group_ends[group];
  const float* x = a.x.data + r * a.x.stride;

  float largest = 0.0f;
  for (std::uint32_t i = begin + threadIdx.x; i < end; i += kWarp) {
    const float magnitude = fabsf(x[i]);
    if (magnitude <= 3.4028234e38f) largest = fmaxf(largest, magnitude);
  }
  largest = warp_max(largest);
  const std::uint16_t half = float_to_half(fminf(largest / kLevels, kHalfMax));
  const float scale = half_to_float(half);
  const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
  for (std::uint32_t i = begin + threadIdx.x; i < end; i += kWarp) {
    const float product = x[i] * inverse;
    const bool is_number = product == product;
    const float level = is_number ? rintf(fminf(fmaxf(product, -kLevels), kLevels)) : 0.0f;
    a.values[r * a.cols + i] = static_cast<std::int8_t>(level);
  }
  if (threadIdx.x == 0) a.scales[r * a.group_count + group] = half;
}

}  // namespace

cudaError_t link_rows(const LinkRowsArgs& args, cudaStream_t stream) {
  return launch(link_rows_kernel, dim3(args.group_count, args.rows), kWarp, stream, args);
}

}  // namespace edgedraft::cuda
