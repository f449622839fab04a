#pragma once

#include <cstdint>
#include <vector>

#include "shared/base/hint_node.h"
#include "shared/privacy/taint_ledger.h"

namespace edgedraft {

// Hints that may leave the device: they were grown behind a conversation without a private token,
// of which they tell a length and a hash.
class SafeHints {
 public:
  // No nodes, behind no conversation.
  SafeHints() = default;
  // Requires  no private token in the conversation, and nothing else in the context of the drafter
  //           that grew the nodes
  SafeHints(const TaintLedger& behind, std::vector<HintNode> nodes);

  // Tokens of the conversation: where a node that hangs from it stands.
  std::uint32_t position() const { return position_; }
  std::uint64_t prefix_hash() const { return prefix_hash_; }
  const std::vector<HintNode>& nodes() const { return nodes_; }

 private:
  std::uint32_t position_ = 0;
  std::uint64_t prefix_hash_ = 0;
  std::vector<HintNode> nodes_;
};

}  // namespace edgedraft
