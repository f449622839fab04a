#include "kernels/cpu/exp.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// A sequence's inputs: those in the state, pending ones, settled rows, then a tree of drafted rows.
struct PathInputs {
  const ConvolutionArgs& a;
  const Recurrent& s;

  const float* row(std::size_t r) const { return a.x.data + (s.first + r) * a.x.stride; }
  const float* kept(std::size_t r) const { return s.kept.data + r * s.kept.stride; }
  const float* drafted(std::size_t r) const {
    return r < s.kept_first ? kept(r) : row(s.row_of(r));
  }
  // The input `steps` positions before the drafted rows.
  // Requires  1 <= steps <= settled + pending_count + taps - 1
  const float* before_drafts(std::size_t steps) const {
    if (steps <= s.settled) return row(s.settled - steps);
    steps -= s.settled;
    if (steps <= s.pending_count) return kept(s.pending[s.pending_count - steps]);
    return s.state.data + (a.taps - 1 + s.pending_count - steps) * s.state.stride;
  }
  // Writes the last inputs on the path to row r of the call to `to`, oldest first.
  EDGEDRAFT_INLINE void of_path(std::size_t r, const float** to) const {
    std::size_t tap = a.taps;
    std::size_t steps = 1;
    if (r < s.settled) {
      steps = s.settled - r;
    } else {
      std::size_t at = s.kept_first + r - s.settled;
      for (; tap > 0 && at != kStateParent; at = s.parents[at]) to[--tap] = drafted(at);
    }
    for (; tap > 0; ++steps) to[--tap] = before_drafts(steps);
  }
};

// The weights of columns first.., tap by tap: [taps, kConvolutionCols].
EDGEDRAFT_INLINE void transpose(const ConvolutionArgs& a, std::size_t first, std::size_t cols,
                                float* weights) {
  for (std::size_t j = 0; j < a.taps; ++j) {
    for (std::size_t c = 0; c < cols; ++c) {
      weights[j * kConvolutionCols + c] = a.weight[(first + c) * a.taps + j];
    }
  }
}

EDGEDRAFT_INLINE Lanes activated(const Lanes& x, bool silu) {
  return silu ? x / (all(1.0f) + exp(all(0.0f) - x)) : x;
}

EDGEDRAFT_INLINE void convolve_row(const ConvolutionArgs& a, const float* const* inputs,
                                   const float* weights, std::size_t first, std::size_t cols,
                                   float* y) {
  const std::size_t whole = cols / kLanes * kLanes;
  for (std::size_t c = 0; c < whole; c += kLanes) {
    Lanes sum = load(weights + c) * load(inputs[0] + first + c);
    for (std::size_t j = 1; j < a.taps; ++j) {
      sum = fma(load(weights + j * kConvolutionCols + c), load(inputs[j] + first + c), sum);
    }
    store(y + first + c, activated(sum, a.silu));
  }
  if (whole < cols) {
    const std::size_t count = cols - whole;
    const auto tail = [&](const float* from) { return load_first(from + whole, count); };
    Lanes sum = tail(weights) * tail(inputs[0] + first);
    for (std::size_t j = 1; j < a.taps; ++j) {
      sum = fma(tail(weights + j * kConvolutionCols), tail(inputs[j] + first), sum);
    }
    store_first(y + first + whole, activated(sum, a.silu), count);
  }
}

// Moves the state's columns first.. past the pending and settled rows.
EDGEDRAFT_INLINE void fold(const PathInputs& inputs, std::size_t first, std::size_t cols) {
  const Recurrent& s = inputs.s;
  if (s.pending_count + s.settled == 0) return;
  const std::size_t state_rows = inputs.a.taps - 1;
  for (std::size_t i = 0; i < state_rows; ++i) {
    const float* from = inputs.before_drafts(state_rows - i);  // ahead of writes
    std::memcpy(s.state.data + i * s.state.stride + first, from + first, cols * sizeof(float));
  }
}

}  // namespace

void convolve(const ConvolutionArgs& a, const Work& work) {
  const std::size_t parts = convolution_parts(a.cols);
  alignas(kCacheLineBytes) float weights[kConvolutionTapsMax * kConvolutionCols];
  for (std::size_t item = work.begin; item < work.end; ++item) {
    const Recurrent& s = a.sequences[item / parts];
    const std::size_t first = item % parts * kConvolutionCols;
    const std::size_t cols = smaller(kConvolutionCols, a.cols - first);
    const PathInputs inputs{a, s};
    transpose(a, first, cols, weights);
    for (std::size_t r = 0; r < s.rows; ++r) {
      const float* path[kConvolutionTapsMax];
      inputs.of_path(r, path);
      convolve_row(a, path, weights, first, cols, a.y.data + (s.first + r) * a.y.stride);
    }
    fold(inputs, first, cols);
    for (std::size_t r = s.kept_first; r < s.kept_end(); ++r) {
      std::memcpy(s.kept.data + r * s.kept.stride + first, inputs.drafted(r) + first,
                  cols * sizeof(float));
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
