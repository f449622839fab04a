#pragma once

#include <cstdint>

#include "shared/speculative/draft_tree.h"

namespace edgedraft {

// The `nodes` best by score, in their order; ties go to the earlier row. A parent is earlier and
// scores at least as much, so no node loses its ancestors.
DraftTree cut(const DraftTree& tree, std::uint32_t nodes);

// The best `nodes` of both trees. A path in both is kept once, with the better score. Ties go to
// `a`, then to the earlier row; order is that of a, then b. Siblings with equal tokens are merged.
//
// Requires  nodes <= kTreeNodesMax
DraftTree merge(const DraftTree& a, const DraftTree& b, std::uint32_t nodes);

}  // namespace edgedraft
