#include "kernels/cpu/exp.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// g / (1 + e^-g) * u
EDGEDRAFT_INLINE Lanes silu_times(const Lanes& gate, const Lanes& up) {
  return gate / (all(1.0f) + exp(all(0.0f) - gate)) * up;
}

}  // namespace

void swiglu(const SwigluArgs& a, const Work& work) {
  const std::size_t whole = a.cols / kLanes * kLanes;
  for (std::size_t r = work.begin; r < work.end; ++r) {
    const float* gate = a.gate.data + r * a.gate.stride;
    const float* up = a.up.data + r * a.up.stride;
    float* y = a.y.data + r * a.y.stride;
    for (std::size_t i = 0; i < whole; i += kLanes)
      store(y + i, silu_times(load(gate + i), load(up + i)));
    if (whole < a.cols) {
      const std::size_t count = a.cols - whole;
      store_first(y + whole,
                  silu_times(load_first(gate + whole, count), load_first(up + whole, count)),
                  count);
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
