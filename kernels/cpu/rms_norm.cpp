#include <cmath>

#include "kernels/cpu/simd.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

// Reads the row twice, the second time from the cache.
void rms_norm(const RmsNormArgs& a, const Work& work) {
  const std::size_t whole = a.cols / kLanes * kLanes;
  for (std::size_t r = work.begin; r < work.end; ++r) {
    const float* x = a.x.data + r * a.x.stride;
    float* y = a.y.data + r * a.y.stride;

    Lanes squares = all(0.0f);
    for (std::size_t i = 0; i < whole; i += kLanes)
      squares = fma(load(x + i), load(x + i), squares);
    if (whole < a.cols) {
      const Lanes tail = load_first(x + whole, a.cols - whole);
      squares = fma(tail, tail, squares);
    }
    const float mean = sum(squares) / static_cast<float>(a.cols);
    const float scale = 1.0f / std::sqrt(mean + a.epsilon);

    for (std::size_t i = 0; i < whole; i += kLanes) {
      store(y + i, load(x + i) * all(scale) * load(a.weight + i));
    }
    for (std::size_t i = whole; i < a.cols; ++i) y[i] = x[i] * scale * a.weight[i];
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
