#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/privacy/taint_ledger.h"

namespace edgedraft {

// A node of a tree that runs ahead of the server.
struct HintNode {
  std::uint32_t token;
  // How many ids its parent's is smaller; 0: it hangs from the conversation's last token.
  std::uint16_t distance;
  std::uint8_t score;  // below the parent's, in parts of a nat (score.h)
  bool operator==(const HintNode&) const = default;
};

// Hints that may leave the device: they were grown behind a conversation without a private token,
// of which they tell a length and a hash.
class SafeHints {
 public:
  // No nodes, behind no conversation.
  SafeHints() = default;
  // Requires  no private token in the conversation, and nothing else in the context of the drafter
  //           that grew the nodes
  SafeHints(const TaintLedger& behind, std::span<const HintNode> nodes);

  // Tokens of the conversation: where a node that hangs from it stands.
  std::uint32_t position() const { return position_; }
  std::uint64_t prefix_hash() const { return prefix_hash_; }
  std::span<const HintNode> nodes() const { return nodes_; }

 private:
  std::uint32_t position_ = 0;
  std::uint64_t prefix_hash_ = 0;
  std::vector<HintNode> nodes_;
};

}  // namespace edgedraft
