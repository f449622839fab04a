#include "kernels/cpu/simd.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// Pair i is x[i * kStep] and x[i * kStep + distance]. A constant step without aliases lets the
// compiler vectorize.
template <std::size_t kStep>
void rotate(float* __restrict x, const float* __restrict cosines, const float* __restrict sines,
            std::size_t half, std::size_t distance) {
  for (std::size_t i = 0; i < half; ++i) {
    const float a = x[i * kStep];
    const float b = x[i * kStep + distance];
    x[i * kStep] = a * cosines[i] - b * sines[i];
    x[i * kStep + distance] = b * cosines[i] + a * sines[i];
  }
}

}  // namespace

void rope(const RopeArgs& a, const Work& work) {
  const std::size_t half = a.rotated / 2;
  for (std::size_t r = work.begin; r < work.end; ++r) {
    const float* cosines = a.cos_sin.data + a.positions[r] * a.cos_sin.stride;
    for (std::size_t head = 0; head < a.cols; head += a.head_dim) {
      float* x = a.x.data + r * a.x.stride + head;
      if (a.pairs) {
        rotate<2>(x, cosines, cosines + half, half, 1);
      } else {
        rotate<1>(x, cosines, cosines + half, half, half);
      }
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
