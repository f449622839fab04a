#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/types/hint_node.h"

namespace edgedraft::testing {

// A chain: each node is the child of the one before.
inline std::vector<HintNode> hint_chain(std::span<const std::uint32_t> tokens,
                                        std::uint8_t score = 0) {
  std::vector<HintNode> chain;
  for (const std::uint32_t token : tokens) {
    const std::uint16_t distance = chain.empty() ? 0 : 1;
    chain.push_back({.token = token, .distance = distance, .score = score});
  }
  return chain;
}

}  // namespace edgedraft::testing
