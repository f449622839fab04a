#include "kernels/cuda/row_groups.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kGroupThreads = 128;
constexpr float kLimit = 7.0f;  // of clamped factors

template <Activation kActivation>
__device__ inline float gated(float gate, float up) {
  switch (kActivation) {
    case Activation::silu:
      return gate / (1.0f + expf(-gate)) * up;
    case Activation::gelu:
      // (1 + tanh u) / 2 = 1 / (1 + e^-2u), u = sqrt(2 / pi) (g + 0.044715 g^3)
      return gate / (1.0f + expf(-1.59576912f * gate * (1.0f + 0.044715f * (gate * gate)))) * up;
    case Activation::clamped: {
      const float limited = gate > kLimit ? kLimit : gate;
      const float factor = up > kLimit ? kLimit : up < -kLimit ? -kLimit : up;
      return limited / (1.0f + expf(-1.702f * limited)) * (factor + 1.0f);
    }
    case Activation::sigmoid:
      return 1.0f / (1.0f + expf(-gate)) * up;
    default:
      return gate * up;
  }
}

// One thread per element.
template <Activation kActivation>
__global__ void gate_kernel(GateArgs a) {
  take_turn();
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= a.cols) return;
  const std::size_t r = blockIdx.y;
  a.y.data[r * a.y.stride + i] = gated<kActivation>(
      a.gate.data[r * a.gate.stride + (a.one_gate ? 0 : i)], a.up.data[r * a.up.stride + i]);
}

// One warp per group of a row, with zeros past its end.
template <Activation kActivation>
__global__ void gate_quantize_kernel(GateQuantizeArgs a) {
  take_turn();
  const std::uint32_t group = blockIdx.x * (kGroupThreads / kWarp) + threadIdx.x / kWarp;
  if (group >= groups(a.cols)) return;
  const std::size_t r = blockIdx.y;
  const std::uint32_t i = piece_place(group);
  const float* gate = a.gate.data + r * a.gate.stride;
  const float* up = a.up.data + r * a.up.stride;
  const float4 g = a.one_gate ? make_float4(*gate, *gate, *gate, *gate)
                              : piece_of(gate, i, a.cols, in_pieces(gate, a.cols));
  const float4 u = piece_of(up, i, a.cols, in_pieces(up, a.cols));
  quantize_group(a.y, a.rows, r, group,
                 i < a.cols
                     ? make_float4(gated<kActivation>(g.x, u.x), gated<kActivation>(g.y, u.y),
                                   gated<kActivation>(g.z, u.z), gated<kActivation>(g.w, u.w))
                     : make_float4(0.0f, 0.0f, 0.0f, 0.0f));
}

template <Activation kActivation>
cudaError_t run(const GateArgs& args, cudaStream_t stream) {
  return launch(gate_kernel<kActivation>, dim3(ceil_div(args.cols, kThreads), args.rows), kThreads,
                stream, args);
}
template <Activation kActivation>
cudaError_t run(const GateQuantizeArgs& args, cudaStream_t stream) {
  return launch(gate_quantize_kernel<kActivation>,
                dim3(ceil_div(groups(args.cols), kGroupThreads / kWarp), args.rows), kGroupThreads,
                stream, args);
}

template <class Args>
cudaError_t run_by_activation(const Args& args, cudaStream_t stream) {
  switch (args.activation) {
    case Activation::silu:
      return run<Activation::silu>(args, stream);
    case Activation::gelu:
      return run<Activation::gelu>(args, stream);
    case Activation::clamped:
      return run<Activation::clamped>(args, stream);
    case Activation::sigmoid:
      return run<Activation::sigmoid>(args, stream);
    default:
      return run<Activation::identity>(args, stream);
  }
}

}  // namespace

cudaError_t gate(const GateArgs& args, cudaStream_t stream) {
  return run_by_activation(args, stream);
}

cudaError_t gate_quantize(const GateQuantizeArgs& args, cudaStream_t stream) {
  return run_by_activation(args, stream);
}

}  // namespace edgedraft::cuda
