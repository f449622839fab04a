#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/runtime/backend.h"
#include "shared/speculative/tree_growth.h"

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

// A drafter's network, used level by level. Holds a committed sequence (tokens verified or written
// offline), followed by the draft rows of the growing tree.
class DraftNetwork {
 public:
  virtual ~DraftNetwork() = default;

  virtual std::uint32_t vocabulary_count() const = 0;
  // Tokens of the logits' columns in a reduced draft vocabulary, ascending; empty if column i is
  // token i.
  virtual std::span<const std::uint32_t> draft_tokens() const { return {}; }
  virtual std::uint32_t committed_count() const = 0;
  // Maximum positions: committed_count() plus the depth of a tree must fit.
  virtual std::uint32_t position_count_max() const = 0;

  // Drops all draft rows, appends `tokens` to the committed sequence and leaves the last token's
  // logits as row 0. Requires tokens not empty, and free positions for them.
  virtual void commit(std::span<const std::uint32_t> tokens) = 0;
  // Drops all draft rows and the committed tokens from `count` on.
  virtual void truncate(std::uint32_t count) = 0;
  // Appends `nodes` as draft rows. Leaves their logits as rows 0..., or none if unused: a
  // vocabulary's head costs much time, and its rows much memory.
  enum class Leave : std::uint8_t { logits, nothing };
  virtual void expand(std::span<const GrowthNode> nodes, Leave leave = Leave::logits) = 0;

  // Logits of the last commit or expand, one column per token that the network may propose.
  // Shape [rows, vocabulary_count() or draft_tokens().size()]
  virtual Matrix logits() const = 0;
  virtual Backend& backend() = 0;
};

}  // namespace edgedraft
