#include <cmath>

#include "kernels/cpu/simd.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// Reads the group twice, the second time from the cache.
template <bool kAccumulate>
void norm_group(const RmsNormArgs& a, const float* x, float* y) {
  const std::size_t whole = a.cols / kLanes * kLanes;
  Lanes squares = all(0.0f);
  for (std::size_t i = 0; i < whole; i += kLanes) squares = fma(load(x + i), load(x + i), squares);
  if (whole < a.cols) {
    const Lanes tail = load_first(x + whole, a.cols - whole);
    squares = fma(tail, tail, squares);
  }
  const float mean = sum(squares) / static_cast<float>(a.cols);
  const float scale = 1.0f / std::sqrt(mean + a.epsilon);

  for (std::size_t i = 0; i < whole; i += kLanes) {
    const Lanes normed = load(x + i) * all(scale) * load(a.weight + i);
    store(y + i, kAccumulate ? load(y + i) + normed : normed);
  }
  for (std::size_t i = whole; i < a.cols; ++i) {
    const float normed = x[i] * scale * a.weight[i];
    y[i] = kAccumulate ? y[i] + normed : normed;
  }
}

}  // namespace

void rms_norm(const RmsNormArgs& a, const Work& work) {
  for (std::size_t r = work.begin; r < work.end; ++r) {
    for (std::size_t group = 0; group < a.groups; ++group) {
      const float* x = a.x.data + r * a.x.stride + group * a.cols;
      float* y = a.y.data + r * a.y.stride + group * a.cols;
      if (a.accumulate) {
        norm_group<true>(a, x, y);
      } else {
        norm_group<false>(a, x, y);
      }
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
