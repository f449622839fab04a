#include "kernels/cpu/exp.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// cap * tanh(x / cap), by tanh |v| = (1 - e^-2|v|) / (1 + e^-2|v|).
EDGEDRAFT_INLINE Lanes capped(const Lanes& x, float cap) {
  const Lanes v = x / all(cap);
  Lanes twice;  // -2 |v|
  for (std::size_t p = 0; p < kParts; ++p) {
    twice.part[p] = v.part[p] * (v.part[p] < all_part(0.0f) ? all_part(2.0f) : all_part(-2.0f));
  }
  const Lanes e = exp(twice);
  Lanes y = all(cap) * ((all(1.0f) - e) / (all(1.0f) + e));
  for (std::size_t p = 0; p < kParts; ++p) {
    y.part[p] = v.part[p] < all_part(0.0f) ? all_part(0.0f) - y.part[p] : y.part[p];
  }
  return y;
}

}  // namespace

void soft_cap(const SoftCapArgs& a, const Work& work) {
  const std::size_t whole = a.cols / kLanes * kLanes;
  for (std::size_t r = work.begin; r < work.end; ++r) {
    float* x = a.x.data + r * a.x.stride;
    for (std::size_t i = 0; i < whole; i += kLanes) store(x + i, capped(load(x + i), a.cap));
    if (whole < a.cols) {
      const std::size_t count = a.cols - whole;
      store_first(x + whole, capped(load_first(x + whole, count), a.cap), count);
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
