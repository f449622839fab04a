#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/base/sha256.h"
#include "shared/privacy/taint_ledger.h"

namespace edgedraft {

// A conversation's tokens in a form that may leave the device: the count that the receiver is
// assumed to hold, their digest, and later tokens. Messages have no other field for conversation
// text, and only a ledger, which records each token's origin, can make one.
class SafePrefix {
 public:
  // No tokens and no conversation.
  SafePrefix() = default;
  // Tokens base_count..base_count + count - 1 of the conversation.
  //
  // Requires  no private token among the first base_count + count
  SafePrefix(const TaintLedger& ledger, std::uint32_t base_count, std::uint32_t count);

  std::uint32_t base_count() const { return base_count_; }
  // token_hash() of the first base_count() tokens.
  const Digest& base_hash() const { return base_hash_; }
  // The tokens after them.
  std::span<const std::uint32_t> tokens() const { return tokens_; }
  std::uint32_t count() const { return static_cast<std::uint32_t>(tokens_.size()); }

 private:
  std::uint32_t base_count_ = 0;
  Digest base_hash_{};
  std::vector<std::uint32_t> tokens_;
};

}  // namespace edgedraft
