#pragma once

#include <cstdint>
#include <vector>

#include "shared/base/random.h"

namespace edgedraft::testing {

// Activations of positions first, first + 1, ..., in [-1, 1). Each depends on its position alone.
inline std::vector<float> made_up_rows(std::uint32_t cols, std::uint32_t first,
                                       std::uint32_t count) {
  std::vector<float> values;
  for (std::uint32_t p = first; p < first + count; ++p) {
    Random random(1000 + p);
    for (std::uint32_t i = 0; i < cols; ++i) {
      values.push_back(static_cast<float>(2.0 * random.uniform() - 1.0));
    }
  }
  return values;
}

}  // namespace edgedraft::testing
