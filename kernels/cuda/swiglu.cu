#include "kernels/cuda/row_groups.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kGroupThreads = 128;

__device__ inline float gated(float gate, float up) {
  return gate / (1.0f + expf(-gate)) * up;
}

// One thread per element.
__global__ void swiglu_kernel(SwigluArgs a) {
  take_turn();
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= a.cols) return;
  const std::size_t r = blockIdx.y;
  a.y.data[r * a.y.stride + i] =
      gated(a.gate.data[r * a.gate.stride + i], a.up.data[r * a.up.stride + i]);
}

// One warp per group of a row. Zeros past its end give zeros.
__global__ void swiglu_quantize_kernel(SwigluQuantizeArgs a) {
  take_turn();
  const std::uint32_t group = blockIdx.x * (kGroupThreads / kWarp) + threadIdx.x / kWarp;
  if (group >= groups(a.cols)) return;
  const std::size_t r = blockIdx.y;
  const std::uint32_t i = piece_place(group);
  const float* gate = a.gate.data + r * a.gate.stride;
  const float* up = a.up.data + r * a.up.stride;
  const float4 g = piece_of(gate, i, a.cols, in_pieces(gate, a.cols));
  const float4 u = piece_of(up, i, a.cols, in_pieces(up, a.cols));
  quantize_group(a.y, a.rows, r, group,
                 make_float4(gated(g.x, u.x), gated(g.y, u.y), gated(g.z, u.z), gated(g.w, u.w)));
}

}  // namespace

cudaError_t swiglu(const SwigluArgs& args, cudaStream_t stream) {
  return launch(swiglu_kernel, dim3(ceil_div(args.cols, kThreads), args.rows), kThreads, stream,
                args);
}

cudaError_t swiglu_quantize(const SwigluQuantizeArgs& args, cudaStream_t stream) {
  return launch(swiglu_quantize_kernel,
                dim3(ceil_div(groups(args.cols), kGroupThreads / kWarp), args.rows), kGroupThreads,
                stream, args);
}

}  // namespace edgedraft::cuda
