#include <cmath>

#include "kernels/cpu/exp.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// The best so far, best first. Indices come in increasing order, so of equal values the earlier one
// is kept first.
struct Best {
  float* values;
  std::uint32_t* indices;
  std::size_t k;
  std::size_t count = 0;

  // Values must exceed this to enter.
  float bar() const { return count < k ? -__builtin_inff() : values[count - 1]; }

  void offer(float value, std::uint32_t index) {
    if (count == k && !(value > values[count - 1])) return;
    std::size_t place = count < k ? count++ : count - 1;
    for (; place > 0 && value > values[place - 1]; --place) {
      values[place] = values[place - 1];
      indices[place] = indices[place - 1];
    }
    values[place] = value;
    indices[place] = index;
  }
};

float comparable(float x) {
  return x != x ? -__builtin_inff() : x;
}

// Columns first..end-1.
void select(const float* x, std::size_t first, std::size_t end, Best& best) {
  std::size_t i = first;
  for (; i < smaller(first + best.k, end); ++i) {
    best.offer(comparable(x[i]), static_cast<std::uint32_t>(i));
  }
  // Few values pass the bar: test sixteen at once first.
  for (; i + kLanes <= end; i += kLanes) {
    if (!any_above(load(x + i), best.bar())) continue;
    for (std::size_t l = 0; l < kLanes; ++l) {
      best.offer(comparable(x[i + l]), static_cast<std::uint32_t>(i + l));
    }
  }
  for (; i < end; ++i) best.offer(comparable(x[i]), static_cast<std::uint32_t>(i));
}

// sum_i e^(x[i] - largest). Vocabularies are long: lanes sum segments, a double sums the segments.
double exp_sum(const float* x, std::size_t cols, float shift) {
  constexpr std::size_t kSegment = 1024;
  double total = 0.0;
  for (std::size_t first = 0; first < cols; first += kSegment) {
    const std::size_t end = smaller(first + kSegment, cols);
    Lanes segment = all(0.0f);
    std::size_t i = first;
    for (; i + kLanes <= end; i += kLanes) segment = segment + exp(load(x + i) - all(shift));
    total += double{sum(segment)};
    if (i < end) {
      float tail[kLanes];
      store(tail, exp(load_first(x + i, end - i) - all(shift)));
      for (std::size_t l = 0; l < end - i; ++l) total += double{tail[l]};
    }
  }
  return total;
}

}  // namespace

void top_k_segment(const TopKArgs& a, const Work& work) {
  const std::size_t segments = top_k_segments(a.cols);
  for (std::size_t item = work.begin; item < work.end; ++item) {
    const float* x = a.logits.data + item / segments * a.logits.stride;
    const std::size_t first = item % segments * kTopKSegment;
    const std::size_t end = smaller(first + kTopKSegment, a.cols);
    TopKPart& part = a.parts[item];
    Best best{.values = part.values, .indices = part.indices, .k = a.k};
    select(x, first, end, best);
    part.count = best.count;
    // If all are -infinity or NaN: a sum with the NaN only.
    part.shift = part.values[0] == -__builtin_inff() ? 0.0f : part.values[0];
    part.exp_sum = exp_sum(x + first, end - first, part.shift);
  }
}

void top_k(const TopKArgs& a, const Work& work) {
  const std::size_t segments = top_k_segments(a.cols);
  for (std::size_t r = work.begin; r < work.end; ++r) {
    const TopKPart* parts = a.parts + r * segments;
    float values[kTopKMax];
    Best best{.values = values, .indices = a.tokens + r * a.k, .k = a.k};
    for (std::size_t s = 0; s < segments; ++s) {
      for (std::size_t i = 0; i < parts[s].count; ++i) {
        best.offer(parts[s].values[i], parts[s].indices[i]);
      }
    }
    double total = 0.0;
    for (std::size_t s = 0; s < segments; ++s) {
      total += parts[s].exp_sum * std::exp(double{parts[s].shift} - double{values[0]});
    }
    const double log_sum = std::log(total);
    for (std::size_t i = 0; i < a.k; ++i) {
      a.log_probs[r * a.k + i] =
          static_cast<float>(double{values[i]} - double{values[0]} - log_sum);
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
