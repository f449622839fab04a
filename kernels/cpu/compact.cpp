#include "kernels/cpu/pages.h"
#include "kernels/cpu/simd.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

void compact(const CompactArgs& a, const Work& work) {
  const std::size_t bytes = cache_element_bytes(a.cache.type);
  for (std::size_t i = 0; i < a.slot_count; ++i) {
    if (a.slots[i] == a.first + i) continue;
    const std::size_t to = row_of(a.pages, a.first + i);
    const std::size_t from = row_of(a.pages, a.slots[i]);
    std::memcpy(a.cache.data + (to * a.cache.stride + work.begin) * bytes,
                a.cache.data + (from * a.cache.stride + work.begin) * bytes,
                (work.end - work.begin) * bytes);
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
