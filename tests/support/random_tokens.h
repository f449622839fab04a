#pragma once

#include <cstdint>
#include <vector>

#include "shared/base/random.h"

namespace edgedraft::testing {

inline std::vector<std::uint32_t> random_tokens(Random& random, std::uint64_t count,
                                                std::uint32_t vocabulary) {
  std::vector<std::uint32_t> tokens(count);
  for (auto& token : tokens) token = static_cast<std::uint32_t>(random.below(vocabulary));
  return tokens;
}

}  // namespace edgedraft::testing
