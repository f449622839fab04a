#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace edgedraft {

// Origin of a token.
enum class Provenance : std::uint8_t {
  given,     // the prompt
  verified,  // the target chose it
  offline,   // the drafter wrote it while the server was away
  private_,  // private text, or written with private text in context: never leaves the device
};

std::string_view to_string(Provenance provenance);

// A conversation's tokens with their origin. Everything sent to the server about a conversation is
// made from it (SafePrefix, SafeHints), so private text, and anything after it, cannot enter a
// message.
class TaintLedger {
 public:
  std::uint32_t count() const { return static_cast<std::uint32_t>(tokens_.size()); }
  std::span<const std::uint32_t> tokens() const { return tokens_; }
  Provenance provenance(std::uint32_t index) const { return provenance_[index]; }

  void append(std::uint32_t token, Provenance provenance);
  void truncate(std::uint32_t count);
  // Marks offline tokens that the target chose as well.
  void confirm(std::uint32_t first, std::uint32_t count);
  // True if none of the first `count` tokens is private.
  bool untainted(std::uint32_t count) const;
  // Number of tokens before the first private one.
  std::uint32_t untainted_count() const;

 private:
  std::vector<std::uint32_t> tokens_;
  std::vector<Provenance> provenance_;
};

}  // namespace edgedraft
