#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "shared/drafting/draft_network.h"
#include "tests/support/matrix_reading.h"

namespace edgedraft::testing {

// Rows of a level share a call and do not depend on each other. Grows two levels of a tree after
// the same text and expects equal bits. One network takes one call per level, the other one per
// node. The first level has more rows than kernels for few rows take.
inline void expect_levels_have_the_bits_of_their_nodes(DraftNetwork& together,
                                                       DraftNetwork& apart) {
  std::vector<GrowthNode> first;
  for (std::uint32_t i = 0; i < 20; ++i) {
    first.push_back({.token = 20 + i, .depth = 1, .ancestors = {}});
  }
  const auto below = [](std::uint32_t parent, std::uint32_t token) {
    GrowthNode node{.token = token, .depth = 2, .ancestors = {}};
    node.ancestors.set(parent);
    return node;
  };
  const std::vector<GrowthNode> second{below(3, 40), below(0, 41), below(3, 42), below(18, 43)};
  for (const auto& level : {first, second}) {
    together.expand(level);
    const auto all = read_logits(together);
    ASSERT_EQ(all.size() % level.size(), 0u);
    const std::size_t cols = all.size() / level.size();
    for (std::size_t i = 0; i < level.size(); ++i) {
      apart.expand(std::span(&level[i], 1));
      EXPECT_TRUE(std::ranges::equal(read_logits(apart), std::span(all).subspan(i * cols, cols)))
          << "node " << i << " of level " << level[i].depth;
    }
  }
}

}  // namespace edgedraft::testing
