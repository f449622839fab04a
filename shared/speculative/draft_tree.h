#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/runtime/backend.h"
#include "shared/speculative/score.h"
#include "shared/types/hint_node.h"

namespace edgedraft {

// A node of a draft tree. Equality ignores scores: they are estimates, and devices round them
// differently.
struct DraftNode {
  std::uint32_t token = 0;
  std::uint32_t parent = 0;  // row; 0 is the root
  Score score = 0.0f;        // score of its path, from the drafter

  bool operator==(const DraftNode& other) const {
    return token == other.token && parent == other.parent;
  }
};

// Candidate tokens after the root. Rows 1..node_count() are the nodes in creation order. Row 0 is
// the root, chosen by the target and not stored. A node's parent has a smaller row.
//
// Source    EAGLE-2 and Mixture of Attentions send the same: token and parent per node
class DraftTree {
 public:
  // Adds a node and returns its row. Caps its score at the parent's. Requires parent <=
  // node_count(), and a free row.
  std::uint32_t add(std::uint32_t token, std::uint32_t parent, Score score);
  // Adds a node of unknown score, which gets its parent's.
  std::uint32_t add(std::uint32_t token, std::uint32_t parent) { return add(token, parent, 0.0f); }

  std::uint32_t node_count() const { return static_cast<std::uint32_t>(nodes_.size()); }
  // Rows of a target pass, root included.
  std::uint32_t row_count() const { return node_count() + 1; }
  bool empty() const { return nodes_.empty(); }

  // Element i is row i + 1.
  std::span<const DraftNode> nodes() const { return nodes_; }

  std::uint32_t token(std::uint32_t row) const { return nodes_[row - 1].token; }
  std::uint32_t parent(std::uint32_t row) const { return nodes_[row - 1].parent; }
  // The root is certain: score 0.
  Score score(std::uint32_t row) const { return row == 0 ? 0.0f : nodes_[row - 1].score; }
  // First child of `row` with `token`; 0 if none.
  std::uint32_t child(std::uint32_t row, std::uint32_t token) const;

  // Distance from the root per row; [0] = 0.
  std::vector<std::uint32_t> depths() const;
  // Per row: the set of itself and its ancestors.
  std::vector<AncestorMask> masks() const;

  bool operator==(const DraftTree&) const = default;

 private:
  std::vector<DraftNode> nodes_;
};

// The nodes as complete hints, without scores.
std::vector<HintNode> complete_hints(const DraftTree& tree);
// Inverse of complete_hints(). Drops nodes that no verdict can accept: deeper than `depth_max`,
// tokens from `vocabulary_count` on, and their descendants.
// Requires  hints.size() <= kTreeNodesMax; each distance leads to an earlier hint
DraftTree tree_of(std::span<const HintNode> hints, std::uint32_t depth_max,
                  std::uint32_t vocabulary_count);

inline constexpr std::uint32_t kTreeNodesMax = kMaskRowsMax - 1;

}  // namespace edgedraft
