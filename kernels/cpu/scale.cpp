#include "kernels/cpu/simd.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

void scale(const ScaleArgs& a, const Work& work) {
  for (std::size_t r = work.begin; r < work.end; ++r) {
    float* x = a.x.data + r * a.x.stride;
    for (std::size_t i = 0; i < a.cols; ++i) x[i] *= a.factor;
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
