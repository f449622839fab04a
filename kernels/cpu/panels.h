#pragma once

#include "kernels/cpu/packed.h"
#include "kernels/cpu/simd.h"

// Shared by matmuls of weights in panels (packed.h).
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

// Registers per panel, one element per output.
inline constexpr std::size_t kPanelParts = kPanelOutputs / kPartLanes;

// Adds the bias and the old values to a row's sums and writes `count` columns.
template <class Args>
inline void finish(const Args& a, std::size_t row, std::size_t column, std::size_t count,
                   const float* sums) {
  float* y = a.y.data + row * a.y.stride + column;
  const float* bias = a.bias != nullptr ? a.bias + column : nullptr;
  if (count == kPanelOutputs) {
    for (std::size_t c = 0; c < kPanelOutputs; c += kPartLanes) {
      Part value = load_part(sums + c);
      if (bias != nullptr) value += load_part(bias + c);
      if (a.accumulate) value += load_part(y + c);
      store_part(y + c, value);
    }
    return;
  }
  for (std::size_t c = 0; c < count; ++c) {
    float value = sums[c];
    if (bias != nullptr) value += bias[c];
    if (a.accumulate) value += y[c];
    y[c] = value;
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
