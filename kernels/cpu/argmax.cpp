#include "kernels/cpu/simd.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

// First the largest value, then its first position; 0 if all are NaN.
void argmax(const ArgmaxArgs& a, const Work& work) {
  const std::size_t whole = a.cols / kLanes * kLanes;
  for (std::size_t r = work.begin; r < work.end; ++r) {
    const float* x = a.logits.data + r * a.logits.stride;
    Lanes best = all(-__builtin_inff());
    for (std::size_t i = 0; i < whole; i += kLanes) best = larger(load(x + i), best);
    float value = largest(best);
    for (std::size_t i = whole; i < a.cols; ++i) value = x[i] > value ? x[i] : value;

    std::size_t place = 0;
    while (place < a.cols && x[place] != value) ++place;
    a.tokens[r] = place < a.cols ? static_cast<std::uint32_t>(place) : 0;
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
