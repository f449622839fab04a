#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/privacy/taint_ledger.h"

namespace edgedraft {

// A draft tree that may leave the device: it was grown behind a conversation without a private
// token, whose length is all that it tells of the text before it.
class SafeTree {
 public:
  // No nodes, behind no conversation.
  SafeTree() = default;
  // No nodes: plain decoding, or a stream, behind the conversation.
  explicit SafeTree(const TaintLedger& behind) : SafeTree(behind, {}, {}) {}
  // Node i (1, 2, ...) has tokens[i - 1] and hangs below parents[i - 1] < i; 0 is the
  // conversation's last token.
  //
  // Requires  no private token in the conversation, and nothing else in the context of the drafter
  //           that grew the tree; as many parents as tokens
  SafeTree(const TaintLedger& behind, std::span<const std::uint32_t> tokens,
           std::span<const std::uint8_t> parents);

  // Tokens of the conversation, the tree's root included.
  std::uint32_t base_count() const { return base_count_; }
  std::span<const std::uint32_t> tokens() const { return tokens_; }
  std::span<const std::uint8_t> parents() const { return parents_; }
  std::uint32_t node_count() const { return static_cast<std::uint32_t>(tokens_.size()); }

 private:
  std::uint32_t base_count_ = 0;
  std::vector<std::uint32_t> tokens_;
  std::vector<std::uint8_t> parents_;
};

}  // namespace edgedraft
