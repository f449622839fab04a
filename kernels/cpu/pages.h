#pragma once

#include "kernels/cpu/kernels.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

inline std::size_t row_of(const Pages& pages, std::size_t slot) {
  if (pages.table == nullptr) return slot;
  const std::size_t page = pages.table[slot >> pages.page_shift];
  return (page << pages.page_shift) + (slot & ((std::size_t{1} << pages.page_shift) - 1));
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
