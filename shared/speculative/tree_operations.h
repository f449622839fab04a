#pragma once

#include <cstdint>

#include "shared/speculative/draft_tree.h"

namespace edgedraft {

// The `nodes` best by score, in the order that they had. Ties go to the earlier row. A parent is
// earlier than its child and scores at least as much, so no node loses its ancestors.
DraftTree cut(const DraftTree& tree, std::uint32_t nodes);

// The best `nodes` of both: paths that both have are one, with the better of its scores. Ties go to
// the nodes of `a`, then to the earlier row; nodes stand in the order of a, then of b. Among
// siblings with the same token one is left.
//
// Requires  nodes <= kTreeNodesMax
DraftTree merge(const DraftTree& a, const DraftTree& b, std::uint32_t nodes);

}  // namespace edgedraft
