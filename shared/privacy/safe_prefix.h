#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/base/sha256.h"
#include "shared/privacy/taint_ledger.h"

namespace edgedraft {

// A conversation's tokens as they may leave the device: how many its other holder is taken to have
// already, their digest, and what follows them. Nothing else about a conversation's text fits into
// a message, and only a ledger, which knows where every token comes from, makes one.
class SafePrefix {
 public:
  // No tokens of no conversation.
  SafePrefix() = default;
  // The tokens base_count..base_count + count - 1 of the conversation.
  //
  // Requires  no private token among the first base_count + count
  SafePrefix(const TaintLedger& ledger, std::uint32_t base_count, std::uint32_t count);

  std::uint32_t base_count() const { return base_count_; }
  // token_hash() of the first base_count() tokens.
  const Digest& base_hash() const { return base_hash_; }
  // What follows them.
  std::span<const std::uint32_t> tokens() const { return tokens_; }
  std::uint32_t count() const { return static_cast<std::uint32_t>(tokens_.size()); }

 private:
  std::uint32_t base_count_ = 0;
  Digest base_hash_{};
  std::vector<std::uint32_t> tokens_;
};

}  // namespace edgedraft
