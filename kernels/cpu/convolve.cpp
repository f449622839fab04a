#include "kernels/cpu/exp.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// A sequence's path before its rows: the state's inputs, then the pending ones.
struct Past {
  const Recurrent& sequence;
  std::size_t state_rows;

  // The input `steps` positions before the call's rows.
  // Requires  1 <= steps <= state_rows + pending_count
  const float* before(std::size_t steps) const {
    const Recurrent& s = sequence;
    if (steps <= s.pending_count) {
      return s.kept.data + s.pending[s.pending_count - steps] * s.kept.stride;
    }
    return s.state.data + (state_rows + s.pending_count - steps) * s.state.stride;
  }
};

// Writes the last inputs on the path of `row` to `inputs`, oldest first.
EDGEDRAFT_INLINE void inputs_of(const ConvolutionArgs& a, const Past& past, std::size_t row,
                                const float** inputs) {
  const Recurrent& s = past.sequence;
  std::uint32_t at = static_cast<std::uint32_t>(row);
  std::size_t tap = a.taps;
  while (tap > 0 && at != kStateParent) {
    inputs[--tap] = a.x.data + (s.first + at) * a.x.stride;
    at = s.parents[at];
  }
  for (std::size_t steps = 1; tap > 0; ++steps) inputs[--tap] = past.before(steps);
}

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
EDGEDRAFT_INLINE void fold(const ConvolutionArgs& a, const Recurrent& s, std::size_t first,
                           std::size_t cols) {
  const std::size_t state_rows = a.taps - 1;
  const std::size_t added = s.pending_count + s.settled;
  if (added == 0) return;
  for (std::size_t i = 0; i < state_rows; ++i) {
    // The input's place among the old state, the pending and the settled rows. Reads are ahead of
    // writes.
    std::size_t from = i + added;
    const float* input;
    if (from < state_rows) {
      input = s.state.data + from * s.state.stride;
    } else if ((from -= state_rows) < s.pending_count) {
      input = s.kept.data + s.pending[from] * s.kept.stride;
    } else {
      input = a.x.data + (s.first + from - s.pending_count) * a.x.stride;
    }
    std::memcpy(s.state.data + i * s.state.stride + first, input + first, cols * sizeof(float));
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
    const Past past{s, a.taps - 1};
    transpose(a, first, cols, weights);
    for (std::size_t r = 0; r < s.rows; ++r) {
      const float* inputs[kConvolutionTapsMax];
      inputs_of(a, past, r, inputs);
      convolve_row(a, inputs, weights, first, cols, a.y.data + (s.first + r) * a.y.stride);
    }
    fold(a, s, first, cols);
    for (std::size_t r = s.settled; r < s.rows; ++r) {
      std::memcpy(s.kept.data + r * s.kept.stride + first,
                  a.x.data + (s.first + r) * a.x.stride + first, cols * sizeof(float));
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
