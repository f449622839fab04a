#include "kernels/cpu/pages.h"
#include "kernels/cpu/simd.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

void compact(const CompactArgs& a, const Work& work) {
  const std::size_t row_bytes = cache_bytes(a.cache.type, a.cache.stride);
  const std::size_t begin = cache_bytes(a.cache.type, work.begin);
  const std::size_t end = cache_bytes(a.cache.type, work.end);
  for (std::size_t i = 0; i < a.slot_count; ++i) {
    if (a.slots[i] == a.first + i) continue;
    const std::size_t to = row_of(a.pages, a.first + i);
    const std::size_t from = row_of(a.pages, a.slots[i]);
    std::memcpy(a.cache.data + to * row_bytes + begin, a.cache.data + from * row_bytes + begin,
                end - begin);
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
