#pragma once

#include <cstdint>
#include <vector>

#include "shared/privacy/taint_ledger.h"
#include "shared/types/hint_node.h"

namespace edgedraft {

// Hints that may leave the device: grown after a conversation without private tokens, of which they
// reveal only a length and a hash.
class SafeHints {
 public:
  // No nodes and no conversation.
  SafeHints() = default;
  // Requires  no private token in the conversation, and nothing else in the context of the drafter
  //           that grew the nodes
  SafeHints(const TaintLedger& behind, std::vector<HintNode> nodes);

  // Tokens of the conversation: the position of its first possible hint.
  std::uint32_t position() const { return position_; }
  std::uint64_t prefix_hash() const { return prefix_hash_; }
  const std::vector<HintNode>& nodes() const { return nodes_; }

 private:
  std::uint32_t position_ = 0;
  std::uint64_t prefix_hash_ = 0;
  std::vector<HintNode> nodes_;
};

}  // namespace edgedraft
