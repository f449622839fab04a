#include "kernels/cpu/simd.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

void compact(const CompactArgs& a, const Work& work) {
  for (std::size_t i = 0; i < a.slot_count; ++i) {
    if (a.slots[i] == a.first + i) continue;
    std::memcpy(a.cache.data + (a.first + i) * a.cache.stride + work.begin,
                a.cache.data + a.slots[i] * a.cache.stride + work.begin,
                (work.end - work.begin) * sizeof(float));
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
