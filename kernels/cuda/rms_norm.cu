#include "kernels/cuda/row_groups.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 512;
constexpr std::uint32_t kWarps = kThreads / kWarp;
// Pieces kept in registers per thread: rows of up to 8192 elements are read once, longer ones
// partly twice.
constexpr std::uint32_t kKept = 4;
constexpr std::uint32_t kGroupThreads = 256;
constexpr std::uint32_t kGroupWarps = kGroupThreads / kWarp;

__device__ inline float add_squares(float sum, const float4& v) {
  sum = fmaf(v.x, v.x, sum);
  sum = fmaf(v.y, v.y, sum);
  sum = fmaf(v.z, v.z, sum);
  return fmaf(v.w, v.w, sum);
}

// One block per row, one warp per group: groups held in registers first, then those reread. The
// weight is loaded while earlier kernels end. All lanes of a warp call `write(group, normed)`.
template <class Args, class Write>
__device__ void norm_row(const Args& a, const Write& write) {
  __shared__ float memory[kWarps];
  const std::uint32_t warp = threadIdx.x / kWarp;
  const bool weight_whole = in_pieces(a.weight, a.cols);
  const auto weight_of = [&](std::uint32_t group) {
    return piece_of(a.weight, piece_place(group), a.cols, weight_whole);
  };
  let_next_start();
  float4 weights[kKept];
#pragma unroll
  for (std::uint32_t n = 0; n < kKept; ++n) weights[n] = weight_of(warp + n * kWarps);
  wait_for_previous_kernel();

  const float* row = a.x.data + blockIdx.x * a.x.stride;
  const bool whole = in_pieces(row, a.cols);
  const auto piece = [&](std::uint32_t group) {
    return piece_of(row, piece_place(group), a.cols, whole);
  };
  float4 kept[kKept];
#pragma unroll
  for (std::uint32_t n = 0; n < kKept; ++n) kept[n] = piece(warp + n * kWarps);
  float sum = 0.0f;
#pragma unroll
  for (std::uint32_t n = 0; n < kKept; ++n) sum = add_squares(sum, kept[n]);
  const std::uint32_t count = groups(a.cols);
  for (std::uint32_t s = warp + kKept * kWarps; s < count; s += kWarps) {
    sum = add_squares(sum, piece(s));
  }
  sum = block_sum<kThreads>(sum, memory);
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(a.cols) + a.epsilon);

  const auto normed = [&](const float4& v, const float4& w) {
    return make_float4(v.x * scale * w.x, v.y * scale * w.y, v.z * scale * w.z, v.w * scale * w.w);
  };
#pragma unroll
  for (std::uint32_t n = 0; n < kKept; ++n) {
    const std::uint32_t s = warp + n * kWarps;
    if (s < count) write(s, normed(kept[n], weights[n]));
  }
  for (std::uint32_t s = warp + kKept * kWarps; s < count; s += kWarps) {
    write(s, normed(piece(s), weight_of(s)));
  }
}

// Puts this lane's piece of a group into a row of y.
__device__ inline void put_normed(const RmsNormArgs& a, float* y, bool whole, std::uint32_t i,
                                  const float4& normed) {
  if (whole && i < a.cols) {
    auto* to = reinterpret_cast<float4*>(y + i);
    const float4 old = a.accumulate ? *to : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    *to = a.accumulate
              ? make_float4(old.x + normed.x, old.y + normed.y, old.z + normed.z, old.w + normed.w)
              : normed;
    return;
  }
  const float numbers[kPiece] = {normed.x, normed.y, normed.z, normed.w};
  for (std::uint32_t n = 0; n < kPiece && i + n < a.cols; ++n) {
    y[i + n] = a.accumulate ? y[i + n] + numbers[n] : numbers[n];
  }
}

__global__ void __launch_bounds__(kThreads) rms_norm_kernel(RmsNormArgs a) {
  float* y = a.y.data + blockIdx.x * a.y.stride;
  const bool whole = in_pieces(y, a.cols);
  norm_row(a, [&](std::uint32_t group, const float4& normed) {
    put_normed(a, y, whole, piece_place(group), normed);
  });
}

// One warp per group of a row: heads are short.
__global__ void __launch_bounds__(kGroupThreads) group_norm_kernel(RmsNormArgs a) {
  take_turn();
  const std::uint32_t nth = blockIdx.x * kGroupWarps + threadIdx.x / kWarp;
  if (nth >= a.groups) return;
  const float* x = a.x.data + blockIdx.y * a.x.stride + std::size_t{nth} * a.cols;
  float* y = a.y.data + blockIdx.y * a.y.stride + std::size_t{nth} * a.cols;
  const bool x_whole = in_pieces(x, a.cols);
  const bool y_whole = in_pieces(y, a.cols);
  const bool weight_whole = in_pieces(a.weight, a.cols);
  float sum = 0.0f;
  for (std::uint32_t s = 0; s < groups(a.cols); ++s) {
    sum = add_squares(sum, piece_of(x, piece_place(s), a.cols, x_whole));
  }
  sum = warp_sum(sum);
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(a.cols) + a.epsilon);
  for (std::uint32_t s = 0; s < groups(a.cols); ++s) {
    const std::uint32_t i = piece_place(s);
    const float4 v = piece_of(x, i, a.cols, x_whole);
    const float4 w = piece_of(a.weight, i, a.cols, weight_whole);
    put_normed(
        a, y, y_whole, i,
        make_float4(v.x * scale * w.x, v.y * scale * w.y, v.z * scale * w.z, v.w * scale * w.w));
  }
}

__global__ void __launch_bounds__(kThreads) rms_norm_quantize_kernel(RmsNormQuantizeArgs a) {
  norm_row(a, [&](std::uint32_t group, const float4& normed) {
    // Not 0 * scale, which is NaN if the scale is not finite.
    const bool is_inside = piece_place(group) < a.cols;
    quantize_group(a.y, a.rows, blockIdx.x, group,
                   is_inside ? normed : make_float4(0.0f, 0.0f, 0.0f, 0.0f));
  });
}

}  // namespace

cudaError_t rms_norm(const RmsNormArgs& args, cudaStream_t stream) {
  if (args.groups > 1) {
    return launch(group_norm_kernel, dim3(ceil_div(args.groups, kGroupWarps), args.rows),
                  kGroupThreads, stream, args);
  }
  return launch(rms_norm_kernel, dim3(args.rows), kThreads, stream, args);
}

cudaError_t rms_norm_quantize(const RmsNormQuantizeArgs& args, cudaStream_t stream) {
  return launch(rms_norm_quantize_kernel, dim3(args.rows), kThreads, stream, args);
}

}  // namespace edgedraft::cuda
