#pragma once

#include <cstdint>
#include <variant>

#include "shared/base/bytes.h"
#include "shared/privacy/safe_hints.h"
#include "shared/privacy/safe_parameters.h"
#include "shared/privacy/safe_prefix.h"
#include "shared/protocol/message.h"

// Messages to be encoded. Conversation text must be of a type that only shared/privacy can make, so
// the compiler rejects unchecked tokens.
namespace edgedraft::wire {

// ClientProtocol sets every `round`. The server reads these as Prefill, Resume and Hints, whose
// fields message.h documents.

struct OutgoingPrefill {
  std::uint32_t round = 0;
  SafePrefix text{};
  std::uint32_t provisional_count = 0;
  ResyncPolicy policy = ResyncPolicy::check;
  std::uint32_t activations_from = 0;
  SafeParameters parameters{};
  RunTerms run{};
  bool receipt = false;
};

struct OutgoingResume {
  std::uint32_t round = 0;
  SessionId session{};
  SafePrefix text{};  // verified tokens, followed by those written offline
  ResyncPolicy policy = ResyncPolicy::check;
  std::uint32_t activations_from = 0;
  SafeParameters parameters{};
  RunTerms run{};
};

struct OutgoingHints {
  std::uint32_t round = 0;
  std::uint32_t credit = 0;
  Hold hold = Hold::none;
  bool complete = false;  // scores are 0; a node's parent is in the same message
  std::uint32_t first = 0;
  SafeHints hints{};
};

using OutgoingMessage =
    std::variant<Hello, Welcome, OutgoingPrefill, Activations, Verdict, OutgoingResume, Ping, Pong,
                 Cancel, Close, ErrorReport, OutgoingHints>;

Kind kind_of(const OutgoingMessage& message);

// Encodes a whole frame: header and payload.
//
// Requires  values within the limits that decode() checks
Bytes encode(const OutgoingMessage& message);

}  // namespace edgedraft::wire
