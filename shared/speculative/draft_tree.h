#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/runtime/backend.h"
#include "shared/speculative/score.h"

namespace edgedraft {

// Tokens that may follow the root. Rows 1..node_count() are the nodes in creation order; row 0 is
// the root, which the target chose and the tree does not hold. A node's parent has a smaller row.
//
// Each node has the score of its path, as its drafter gave it. Trees are equal if their nodes are:
// scores are opinions, and devices round them differently.
//
// Source    EAGLE-2 and Mixture of Attentions send the same: token and parent per node.
class DraftTree {
 public:
  // Adds a node and returns its row. A score above the parent's becomes the parent's.
  // Requires parent <= node_count() and room for one more.
  std::uint32_t add(std::uint32_t token, std::uint32_t parent, Score score);
  // Adds a node of which no score is known: it is held to be as likely as its parent.
  std::uint32_t add(std::uint32_t token, std::uint32_t parent) { return add(token, parent, 0.0f); }

  std::uint32_t node_count() const { return static_cast<std::uint32_t>(tokens_.size()); }
  // Root included: what one target pass takes.
  std::uint32_t row_count() const { return node_count() + 1; }
  bool empty() const { return tokens_.empty(); }

  // What rows 1.. have: element i belongs to row i + 1.
  std::span<const std::uint32_t> tokens() const { return tokens_; }
  std::span<const std::uint8_t> parents() const { return parents_; }
  std::span<const Score> scores() const { return scores_; }

  std::uint32_t token(std::uint32_t row) const { return tokens_[row - 1]; }
  std::uint32_t parent(std::uint32_t row) const { return parents_[row - 1]; }
  // The root is certain.
  Score score(std::uint32_t row) const { return row == 0 ? 0.0f : scores_[row - 1]; }
  // The first child of `row` that carries `token`; 0 if there is none.
  std::uint32_t child(std::uint32_t row, std::uint32_t token) const;

  // Distance from the root of every row; [0] = 0.
  std::vector<std::uint32_t> depths() const;
  // For every row the set of itself and its ancestors.
  std::vector<AncestorMask> masks() const;

  bool operator==(const DraftTree& other) const {
    return tokens_ == other.tokens_ && parents_ == other.parents_;
  }

 private:
  std::vector<std::uint32_t> tokens_;
  std::vector<std::uint8_t> parents_;
  std::vector<Score> scores_;
};

inline constexpr std::uint32_t kTreeNodesMax = kMaskRowsMax - 1;

}  // namespace edgedraft
