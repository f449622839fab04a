#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/runtime/backend.h"

namespace edgedraft {

// Tokens that may follow the root. Rows 1..node_count() are the nodes in creation order; row 0 is
// the root, which the target chose and the tree does not hold. A node's parent has a smaller row.
//
// Source    EAGLE-2 and Mixture of Attentions send the same: token and parent a node.
class DraftTree {
 public:
  // Adds a node and returns its row. Requires parent <= node_count() and room for one more.
  std::uint32_t add(std::uint32_t token, std::uint32_t parent);

  std::uint32_t node_count() const { return static_cast<std::uint32_t>(tokens_.size()); }
  // Root included: what one target pass takes.
  std::uint32_t row_count() const { return node_count() + 1; }
  bool empty() const { return tokens_.empty(); }

  // Of rows 1..: element i belongs to row i + 1.
  std::span<const std::uint32_t> tokens() const { return tokens_; }
  std::span<const std::uint8_t> parents() const { return parents_; }

  std::uint32_t token(std::uint32_t row) const { return tokens_[row - 1]; }
  std::uint32_t parent(std::uint32_t row) const { return parents_[row - 1]; }

  // Distance from the root of every row; [0] = 0.
  std::vector<std::uint32_t> depths() const;
  // For every row the set of itself and its ancestors.
  std::vector<AncestorMask> masks() const;
  // Without the rows deeper than `depth_max`, order kept.
  DraftTree pruned(std::uint32_t depth_max) const;

  bool operator==(const DraftTree&) const = default;

 private:
  std::vector<std::uint32_t> tokens_;
  std::vector<std::uint8_t> parents_;
};

inline constexpr std::uint32_t kTreeNodesMax = kMaskRowsMax - 1;

}  // namespace edgedraft
