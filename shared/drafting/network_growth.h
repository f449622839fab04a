#pragma once

#include "shared/drafting/draft_network.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// Grows a tree with a network, until it is done (true) or the budget is spent (false). The root's
// children come from the logits of network.commit(). After that the network holds the draft rows
// numbered by `growth`.
//
// Cost      one call of network.expand per level, or part of one
bool grow(DraftNetwork& network, TreeGrowth& growth, const GrowthBudget& budget = {});

// A whole tree below the last committed token.
//
// Requires  valid(shape); network.commit() was the last call
// Cost      shape.depth - 1 calls of network.expand
DraftTree grow_tree(DraftNetwork& network, const TreeShape& shape);

}  // namespace edgedraft
