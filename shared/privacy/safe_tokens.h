#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace edgedraft {

class TaintLedger;
namespace wire {
class SafeTokenReader;
}

// Token ids that may leave the device: no private text, and nothing that was generated while
// private text was in the context. Messages carry only these, and no vector of ids converts into
// one, so that the compiler refuses what nobody vouched for.
//
// Only two make them: TaintLedger, which knows the origin of every token of a conversation
// (client/privacy), and the decoder, whose tokens have been on the wire already.
class SafeTokens {
 public:
  SafeTokens() = default;

  std::span<const std::uint32_t> view() const { return ids_; }
  std::uint32_t count() const { return static_cast<std::uint32_t>(ids_.size()); }
  bool empty() const { return ids_.empty(); }
  bool operator==(const SafeTokens&) const = default;

 private:
  friend class TaintLedger;
  friend class wire::SafeTokenReader;
  explicit SafeTokens(std::vector<std::uint32_t> ids) : ids_(std::move(ids)) {}

  std::vector<std::uint32_t> ids_;
};

}  // namespace edgedraft
