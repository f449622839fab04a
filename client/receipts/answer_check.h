#pragma once

#include <cstdint>
#include <optional>

#include "client/receipts/receipt_file.h"
#include "shared/base/clock.h"
#include "shared/protocol/target_link.h"

namespace edgedraft::client {

// Index and token where a server's choice differs first from an answer.
struct Difference {
  std::uint32_t index = 0;
  std::uint32_t chosen = 0;
};

struct CheckedAnswer {
  wire::Welcome welcome;
  std::optional<Difference> difference{};  // null: the server chooses the same tokens
  Bytes signature{};                       // empty: none was requested, or the server gives none
  Bytes certificate{};
};

// Has the server of a new link check the answer of `receipt` like a draft, in one request. With
// `signs` the server signs what it has checked. Gives up after a silence of `patience`.
//
// Requires  nothing private in prompt and answer
// Errors    of the link; those that the server answers the request with
Result<CheckedAnswer> check_answer(TargetLink& link, const Receipt& receipt, bool signs,
                                   Duration patience);

// Has the server sign `receipt`, whose target, arithmetic, provenance, certificate and signature it
// sets.
//
// Errors    of check_answer(); mismatch if the server chooses other tokens; unsupported if it gives
//           no receipts
Result<void> sign_answer(TargetLink& link, Receipt& receipt, Duration patience);

}  // namespace edgedraft::client
