#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 512;

// Numbers i.. of a row, at most four; `whole`: rows are aligned and end with a whole piece.
__device__ inline float4 piece_of(const float* row, std::uint32_t i, std::uint32_t cols,
                                  bool whole) {
  if (whole) return *reinterpret_cast<const float4*>(row + i);
  const auto number = [&](std::uint32_t at) { return at < cols ? row[at] : 0.0f; };
  return make_float4(number(i), number(i + 1), number(i + 2), number(i + 3));
}
__device__ inline bool in_pieces(const float* row, std::uint32_t cols) {
  return cols % 4 == 0 && reinterpret_cast<std::uintptr_t>(row) % 16 == 0;
}

// A block a row, a thread four numbers: read twice, the second time from cache.
__global__ void rms_norm_kernel(RmsNormArgs a) {
  take_turn();
  __shared__ float memory[kThreads / kWarp];
  const float* x = a.x.data + blockIdx.x * a.x.stride;
  float* y = a.y.data + blockIdx.x * a.y.stride;
  const bool whole = in_pieces(x, a.cols);
  const bool weight_whole = in_pieces(a.weight, a.cols);

  float sum = 0.0f;
  for (std::uint32_t i = 4 * threadIdx.x; i < a.cols; i += 4 * kThreads) {
    const float4 v = piece_of(x, i, a.cols, whole);
    sum = fmaf(v.x, v.x, sum);
    sum = fmaf(v.y, v.y, sum);
    sum = fmaf(v.z, v.z, sum);
    sum = fmaf(v.w, v.w, sum);
  }
  sum = block_sum<kThreads>(sum, memory);
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(a.cols) + a.epsilon);

  for (std::uint32_t i = 4 * threadIdx.x; i < a.cols; i += 4 * kThreads) {
    const float4 v = piece_of(x, i, a.cols, whole);
    const float4 w = piece_of(a.weight, i, a.cols, weight_whole);
    const float4 normed =
        make_float4(v.x * scale * w.x, v.y * scale * w.y, v.z * scale * w.z, v.w * scale * w.w);
    if (in_pieces(y, a.cols)) {
      *reinterpret_cast<float4*>(y + i) = normed;
      continue;
    }
    const float numbers[4] = {normed.x, normed.y, normed.z, normed.w};
    for (std::uint32_t n = 0; n < 4 && i + n < a.cols; ++n) y[i + n] = numbers[n];
  }
}

}  // namespace

cudaError_t rms_norm(const RmsNormArgs& args, cudaStream_t stream) {
  return launch(rms_norm_kernel, dim3(args.rows), kThreads, stream, args);
}

}  // namespace edgedraft::cuda
