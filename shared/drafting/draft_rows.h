#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/drafting/draft_network.h"

namespace edgedraft {

// A level of a draft tree as input for layers: tokens, positions and masks.
struct DraftRows {
  std::vector<std::uint32_t> tokens;
  std::vector<std::uint32_t> positions;
  std::vector<AncestorMask> masks;  // ancestors and self, over all draft rows since the last commit
};

// `committed_count`: tokens before the tree, root included. `first_row`: draft rows so far.
inline DraftRows make_draft_rows(std::span<const GrowthNode> nodes, std::uint32_t committed_count,
                                 std::uint32_t first_row) {
  DraftRows rows;
  for (const GrowthNode& node : nodes) {
    rows.tokens.push_back(node.token);
    rows.positions.push_back(committed_count - 1 + node.depth);
    rows.masks.push_back(node.ancestors);
    rows.masks.back().set(first_row++);
  }
  return rows;
}

}  // namespace edgedraft
