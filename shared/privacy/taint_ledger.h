#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "shared/privacy/safe_tokens.h"

namespace edgedraft {

// Where a token comes from.
enum class Provenance : std::uint8_t {
  given,     // the prompt
  verified,  // the target chose it
  offline,   // the drafter wrote it while the server was away
  private_,  // private text, or written with private text in the context: never leaves the device
};

std::string_view to_string(Provenance provenance);

// The tokens of a conversation with their origin, and the only maker of SafeTokens: what is, or
// follows, private text cannot be put into a message.
class TaintLedger {
 public:
  std::uint32_t count() const { return static_cast<std::uint32_t>(tokens_.size()); }
  std::span<const std::uint32_t> tokens() const { return tokens_; }
  Provenance provenance(std::uint32_t index) const { return provenance_[index]; }

  void append(std::uint32_t token, Provenance provenance);
  void truncate(std::uint32_t count);
  // Offline tokens that the target chose as well.
  void confirm(std::uint32_t first, std::uint32_t count);

  // Requires  no private token among the first `first + count`
  SafeTokens safe(std::uint32_t first, std::uint32_t count) const;
  // Tokens that were drafted behind this conversation. Requires no private token in it.
  SafeTokens safe_draft(std::span<const std::uint32_t> drafted) const;

 private:
  bool untainted(std::uint32_t count) const;

  std::vector<std::uint32_t> tokens_;
  std::vector<Provenance> provenance_;
};

}  // namespace edgedraft
