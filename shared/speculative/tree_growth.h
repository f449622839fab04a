#pragma once

#include <cstdint>

#include "shared/speculative/draft_network.h"
#include "shared/speculative/draft_tree.h"

namespace edgedraft {

// The size of an EAGLE-2 tree. The defaults are those of the Mixture of Attentions paper.
struct TreeShape {
  std::uint32_t breadth = 8;  // tokens tried a node, and nodes expanded a level
  std::uint32_t depth = 6;    // levels below the root
  std::uint32_t nodes = 62;   // kept of all candidates

  bool operator==(const TreeShape&) const = default;
};

inline constexpr TreeShape chain_shape(std::uint32_t length) {
  return {.breadth = 1, .depth = length, .nodes = length};
}

inline constexpr std::uint32_t kTreeBreadthMax = 32;
inline constexpr std::uint32_t kTreeDepthMax = 32;

// True for a shape that grow_tree takes: every part at least 1, breadth and depth within the limits
// above, nodes within kTreeNodesMax, and (depth - 1) * breadth draft rows below kMaskRowsMax.
bool valid(const TreeShape& shape);

// Grows the tree below the last committed token: each level expands the `breadth` best candidates
// of the one before, the score of a node being the sum of log-probabilities along its path; of all
// candidates the `nodes` best are kept, in creation order. The scores are the drafter's raw
// log-softmax, so the tree is a function of the committed tokens and the network's memory alone.
//
// Source    EAGLE-2, as used in Mixture of Attentions, section 4
// Requires  valid(shape); network.commit() was the last call
// Cost      shape.depth - 1 calls of network.expand
DraftTree grow_tree(DraftNetwork& network, const TreeShape& shape);

}  // namespace edgedraft
