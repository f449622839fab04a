#pragma once

#include <cstdint>

#include "shared/protocol/message.h"

namespace edgedraft::testing {

// Counts a session's length as its client does: the position of complete hints. Not for `keep`.
class HeldLength {
 public:
  void asked(const wire::Prefill& request) {
    value_ = request.base_length + static_cast<std::uint32_t>(request.tokens.size()) -
             request.provisional_count;
  }
  void asked(const wire::Resume& request) { value_ = request.verified_length; }
  void heard(const wire::Verdict& verdict) {
    value_ += verdict.accepted_count + 1 + static_cast<std::uint32_t>(verdict.tokens.size());
  }
  std::uint32_t value() const { return value_; }

 private:
  std::uint32_t value_ = 0;
};

}  // namespace edgedraft::testing
