#include "kernels/cpu/simd.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// Neighbours at x[0], x[step], with their partner `distance` further.
void rotate(float* x, const float* cosines, const float* sines, std::size_t half, std::size_t step,
            std::size_t distance) {
  for (std::size_t i = 0; i < half; ++i) {
    const float a = x[i * step];
    const float b = x[i * step + distance];
    x[i * step] = a * cosines[i] - b * sines[i];
    x[i * step + distance] = b * cosines[i] + a * sines[i];
  }
}

}  // namespace

void rope(const RopeArgs& a, const Work& work) {
  const std::size_t half = a.head_dim / 2;
  for (std::size_t r = work.begin; r < work.end; ++r) {
    const float* cosines = a.cos_sin.data + a.positions[r] * a.cos_sin.stride;
    for (std::size_t head = 0; head < a.cols; head += a.head_dim) {
      float* x = a.x.data + r * a.x.stride + head;
      if (a.pairs) {
        rotate(x, cosines, cosines + half, half, 2, 1);
      } else {
        rotate(x, cosines, cosines + half, half, 1, half);
      }
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
