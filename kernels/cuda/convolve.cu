#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;

// Place of the input `steps` positions before the call's rows: in the pending rows, or the state.
__device__ inline const float* input_before(const RecurrentSequence& s, std::uint32_t state_rows,
                                            std::uint32_t steps) {
  if (steps <= s.pending_count) {
    return s.kept + s.pending[s.pending_count - steps] * s.kept_stride;
  }
  return s.state + (state_rows + s.pending_count - steps) * s.state_stride;
}

// One thread per element. It finds its inputs backwards and adds them forwards.
__global__ void convolve_kernel(ConvolutionArgs a) {
  take_turn();
  const std::uint32_t c = blockIdx.y * kThreads + threadIdx.x;
  if (c >= a.cols) return;
  const std::uint32_t row = blockIdx.x;
  const RecurrentSequence& s = a.call.sequences[a.call.owners[row]];
  std::uint32_t at = row - s.first;
  std::uint32_t steps = 0;
  float inputs[kConvolutionTapsMax];  // newest first
#pragma unroll
  for (std::uint32_t j = 0; j < kConvolutionTapsMax; ++j) {
    if (j >= a.taps) break;
    if (at != kNoRow) {
      inputs[j] = a.x.data[(s.first + at) * a.x.stride + c];
      at = s.parents[at];
    } else {
      inputs[j] = input_before(s, a.taps - 1, ++steps)[c];
    }
  }
  const float* weights = a.weight + std::size_t{c} * a.taps;
  float sum = 0.0f;
#pragma unroll
  for (std::uint32_t j = kConvolutionTapsMax; j-- > 0;) {
    if (j < a.taps) sum = fmaf(weights[a.taps - 1 - j], inputs[j], sum);
  }
  a.y.data[row * a.y.stride + c] = a.silu ? sum / (1.0f + expf(-sum)) : sum;
}

// One thread per column of a sequence: moves the state past the pending and settled rows, then
// keeps the others. Separate, since all rows read the old state.
__global__ void fold_inputs_kernel(ConvolutionArgs a) {
  take_turn();
  const std::uint32_t c = blockIdx.y * kThreads + threadIdx.x;
  if (c >= a.cols) return;
  const RecurrentSequence& s = a.call.sequences[blockIdx.x];
  const std::uint32_t state_rows = a.taps - 1;
  const std::uint32_t added = s.pending_count + s.settled;
  const float* x = a.x.data + s.first * a.x.stride;
  for (std::uint32_t i = 0; added > 0 && i < state_rows; ++i) {
    // Reads are ahead of writes.
    const std::uint32_t from = i + added;
    const bool is_settled = from >= state_rows + s.pending_count;
    const float* input = is_settled
                             ? x + (from - state_rows - s.pending_count) * a.x.stride
                             : input_before(s, state_rows, state_rows + s.pending_count - from);
    s.state[i * s.state_stride + c] = input[c];
  }
  for (std::uint32_t r = s.settled; r < s.rows; ++r) {
    s.kept[r * s.kept_stride + c] = x[r * a.x.stride + c];
  }
}

}  // namespace

cudaError_t convolve(const ConvolutionArgs& args, cudaStream_t stream) {
  if (args.taps > kConvolutionTapsMax) return cudaErrorInvalidValue;
  const std::uint32_t columns = ceil_div(args.cols, kThreads);
  const cudaError_t status =
      launch(convolve_kernel, dim3(args.call.rows, columns), kThreads, stream, args);
  if (status != cudaSuccess) return status;
  return launch(fold_inputs_kernel, dim3(args.call.sequence_count, columns), kThreads, stream,
                args);
}

}  // namespace edgedraft::cuda
