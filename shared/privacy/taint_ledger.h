#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace edgedraft {

// Where a token comes from.
enum class Provenance : std::uint8_t {
  given,     // the prompt
  verified,  // the target chose it
  offline,   // the drafter wrote it while the server was away
  private_,  // private text, or written with private text in the context: never leaves the device
};

std::string_view to_string(Provenance provenance);

// The tokens of a conversation with their origin. What may be said of it to the server is made from
// it alone (SafePrefix, SafeHints): what is, or follows, private text cannot be put into a message.
class TaintLedger {
 public:
  std::uint32_t count() const { return static_cast<std::uint32_t>(tokens_.size()); }
  std::span<const std::uint32_t> tokens() const { return tokens_; }
  Provenance provenance(std::uint32_t index) const { return provenance_[index]; }

  void append(std::uint32_t token, Provenance provenance);
  void truncate(std::uint32_t count);
  // Offline tokens that the target chose as well.
  void confirm(std::uint32_t first, std::uint32_t count);
  // Whether no private token is among the first `count`.
  bool untainted(std::uint32_t count) const;
  // Tokens before the first private one.
  std::uint32_t untainted_count() const;

 private:
  std::vector<std::uint32_t> tokens_;
  std::vector<Provenance> provenance_;
};

}  // namespace edgedraft
