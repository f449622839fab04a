#pragma once

#include "shared/drafting/draft_network.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// Goes on growing a tree with a network, until the tree is done (true) or the budget spent (false).
// The root's children come from the logits that network.commit() left; after that the network holds
// the draft rows that `growth` has numbered.
//
// Cost      one call of network.expand per level, or part of one
bool grow(DraftNetwork& network, TreeGrowth& growth, const GrowthBudget& budget = {});

// A whole tree below the last committed token.
//
// Requires  valid(shape); network.commit() was the last call
// Cost      shape.depth - 1 calls of network.expand
DraftTree grow_tree(DraftNetwork& network, const TreeShape& shape);

}  // namespace edgedraft
