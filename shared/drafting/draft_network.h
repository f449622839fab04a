#pragma once

#include <cstdint>
#include <span>

#include "shared/runtime/backend.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// A drafter's network, one level of a tree at a time. It holds a committed sequence (the tokens
// that were verified, or written offline) and, behind it, the draft rows of the tree that is being
// grown.
class DraftNetwork {
 public:
  virtual ~DraftNetwork() = default;

  virtual std::uint32_t vocabulary_count() const = 0;
  // In a reduced draft vocabulary, the tokens of the logits' columns, ascending; empty where column
  // i is token i of the whole vocabulary.
  virtual std::span<const std::uint32_t> draft_tokens() const { return {}; }
  virtual std::uint32_t committed_count() const = 0;
  // Positions that fit: committed_count() plus the depth of a tree must stay within.
  virtual std::uint32_t position_count_max() const = 0;

  // Drops all draft rows, appends `tokens` to the committed sequence and leaves the logits behind
  // the last one as row 0. Requires tokens not empty and room for them.
  virtual void commit(std::span<const std::uint32_t> tokens) = 0;
  // Drops all draft rows and the committed tokens from `count` on.
  virtual void truncate(std::uint32_t count) = 0;
  // Appends `nodes` as draft rows and leaves their logits as rows 0..., or none where nobody reads
  // them: a vocabulary's head is dear in time, and its rows in memory.
  enum class Leave : std::uint8_t { logits, nothing };
  virtual void expand(std::span<const GrowthNode> nodes, Leave leave = Leave::logits) = 0;

  // The logits that the last commit or expand left, a column a token that the network may propose.
  // Shape [rows, vocabulary_count() or draft_tokens().size()]
  virtual Matrix logits() const = 0;
  virtual Backend& backend() = 0;
};

}  // namespace edgedraft
