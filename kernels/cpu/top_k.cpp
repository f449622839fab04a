#include <cmath>

#include "kernels/cpu/exp.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

constexpr std::size_t kTopKMax = 256;

// The best so far, best first. Indices are offered in increasing order, so an equal value stays
// behind.
struct Best {
  float values[kTopKMax];
  std::uint32_t indices[kTopKMax];
  std::size_t count = 0;
  std::size_t k;

  // What a value must exceed to enter.
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

void select(const float* x, std::size_t cols, Best& best) {
  std::size_t i = 0;
  for (; i < best.k; ++i) best.offer(comparable(x[i]), static_cast<std::uint32_t>(i));
  // Few values pass the bar: look at sixteen at once first.
  for (; i + kLanes <= cols; i += kLanes) {
    if (!any_above(load(x + i), best.bar())) continue;
    for (std::size_t l = 0; l < kLanes; ++l) {
      best.offer(comparable(x[i + l]), static_cast<std::uint32_t>(i + l));
    }
  }
  for (; i < cols; ++i) best.offer(comparable(x[i]), static_cast<std::uint32_t>(i));
}

// sum_i e^(x[i] - largest). Vocabularies are long: lanes add up stretches, a double the stretches.
double exp_sum(const float* x, std::size_t cols, float shift) {
  constexpr std::size_t kStretch = 1024;
  double total = 0.0;
  for (std::size_t first = 0; first < cols; first += kStretch) {
    const std::size_t end = smaller(first + kStretch, cols);
    Lanes stretch = all(0.0f);
    std::size_t i = first;
    for (; i + kLanes <= end; i += kLanes) stretch = stretch + exp(load(x + i) - all(shift));
    total += double{sum(stretch)};
    if (i < end) {
      float tail[kLanes];
      store(tail, exp(load_first(x + i, end - i) - all(shift)));
      for (std::size_t l = 0; l < end - i; ++l) total += double{tail[l]};
    }
  }
  return total;
}

}  // namespace

void top_k(const TopKArgs& a, const Work& work) {
  for (std::size_t r = work.begin; r < work.end; ++r) {
    const float* x = a.logits.data + r * a.logits.stride;
    Best best;
    best.k = a.k;
    select(x, a.cols, best);
    const double log_sum = std::log(exp_sum(x, a.cols, best.values[0]));
    for (std::size_t i = 0; i < a.k; ++i) {
      a.tokens[r * a.k + i] = best.indices[i];
      a.log_probs[r * a.k + i] =
          static_cast<float>(double{best.values[i]} - double{best.values[0]} - log_sum);
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
