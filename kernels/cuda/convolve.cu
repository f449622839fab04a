#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;

// A sequence's inputs: those in the state, pending ones, settled rows, then a tree of drafted rows.
struct PathInputs {
  const ConvolutionArgs& a;
  const RecurrentSequence& s;

  __device__ const float* row(std::uint32_t r) const {
    return a.x.data + (s.first + r) * a.x.stride;
  }
  __device__ const float* kept(std::uint32_t r) const { return s.kept + r * s.kept_stride; }
  __device__ const float* drafted(std::uint32_t r) const {
    return r < s.kept_first ? kept(r) : row(s.settled + r - s.kept_first);
  }
  // The input `steps` positions before the drafted rows.
  __device__ const float* before_drafts(std::uint32_t steps) const {
    if (steps <= s.settled) return row(s.settled - steps);
    steps -= s.settled;
    if (steps <= s.pending_count) return kept(s.pending[s.pending_count - steps]);
    return s.state + (a.taps - 1 + s.pending_count - steps) * s.state_stride;
  }
};

// One thread per element. It finds its inputs backwards and adds them forwards.
__global__ void convolve_kernel(ConvolutionArgs a) {
  take_turn();
  const std::uint32_t c = blockIdx.y * kThreads + threadIdx.x;
  if (c >= a.cols) return;
  const std::uint32_t row = blockIdx.x;
  const RecurrentSequence& s = a.call.sequences[a.call.owners[row]];
  const PathInputs from{a, s};
  const std::uint32_t r = row - s.first;
  const bool is_settled = r < s.settled;
  std::uint32_t at = is_settled ? kNoRow : s.kept_first + r - s.settled;
  std::uint32_t steps = is_settled ? s.settled - r : 1;
  float inputs[kConvolutionTapsMax];  // newest first
#pragma unroll
  for (std::uint32_t j = 0; j < kConvolutionTapsMax; ++j) {
    if (j >= a.taps) break;
    if (at != kNoRow) {
      inputs[j] = from.drafted(at)[c];
      at = s.parents[at];
    } else {
      inputs[j] = from.before_drafts(steps++)[c];
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
  const PathInputs from{a, s};
  if (s.pending_count + s.settled > 0) {
    for (std::uint32_t steps = a.taps - 1; steps > 0; --steps) {
      // Reads are ahead of writes.
      s.state[(a.taps - 1 - steps) * s.state_stride + c] = from.before_drafts(steps)[c];
    }
  }
  for (std::uint32_t r = s.settled; r < s.rows; ++r) {
    s.kept[(s.kept_first + r - s.settled) * s.kept_stride + c] = from.row(r)[c];
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
