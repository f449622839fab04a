#include "kernels/cpu/simd.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

void group_mean(const GroupMeanArgs& a, const Work& work) {
  const float count = static_cast<float>(a.group_rows);
  for (std::size_t g = work.begin; g < work.end; ++g) {
    const float* x = a.x.data + g * a.group_rows * a.x.stride;
    float* y = a.y.data + g * a.y.stride;
    std::memcpy(y, x, a.cols * sizeof(float));
    for (std::size_t r = 1; r < a.group_rows; ++r) {
      for (std::size_t i = 0; i < a.cols; ++i) y[i] += x[r * a.x.stride + i];
    }
    for (std::size_t i = 0; i < a.cols; ++i) y[i] /= count;
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
