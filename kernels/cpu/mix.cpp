#include "kernels/cpu/experts.h"

namespace edgedraft::cpu {

void mix(const MixArgs& a, const Work& work) {
  constexpr std::size_t kCols = 64;  // sums in the first-level cache
  float sums[kCols];
  for (std::size_t r = work.begin; r < work.end; ++r) {
    const float* weights = a.weights.data + r * a.weights.stride;
    for (std::size_t first = 0; first < a.cols; first += kCols) {
      const std::size_t count = first + kCols < a.cols ? kCols : a.cols - first;
      for (std::size_t i = 0; i < count; ++i) sums[i] = 0.0f;
      for (std::size_t u = 0; u < a.used; ++u) {
        const float* x = a.x.data + (r * a.used + u) * a.x.stride + first;
        for (std::size_t i = 0; i < count; ++i) sums[i] += weights[u] * x[i];
      }
      float* y = a.y.data + r * a.y.stride + first;
      for (std::size_t i = 0; i < count; ++i) y[i] += sums[i];
    }
  }
}

}  // namespace edgedraft::cpu
