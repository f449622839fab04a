#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "shared/protocol/outgoing.h"
#include "shared/types/prefix_hash.h"

namespace edgedraft {

// A ledger of a conversation that holds the first `base_count` tokens of `first`, padded with
// zeros, and then `rest`.
inline TaintLedger ledger_of(std::span<const std::uint32_t> first, std::uint32_t base_count,
                             std::span<const std::uint32_t> rest) {
  TaintLedger ledger;
  for (std::uint32_t i = 0; i < base_count; ++i) {
    ledger.append(i < first.size() ? first[i] : 0, Provenance::given);
  }
  for (const std::uint32_t token : rest) ledger.append(token, Provenance::given);
  return ledger;
}

// The outgoing form of `message`, which the server reads.

inline wire::OutgoingPrefill outgoing(const wire::Prefill& message) {
  const TaintLedger ledger = ledger_of({}, message.base_length, message.tokens);
  return {.round = message.round,
          .text = SafePrefix(ledger, message.base_length, ledger.count() - message.base_length),
          .provisional_count = message.provisional_count,
          .policy = message.policy,
          .activations_from = message.activations_from,
          .parameters = SafeParameters(message.sampling, message.constraints),
          .run = message.run,
          .receipt = message.receipt};
}

// Carries the hash of the tokens `verified`.
inline wire::OutgoingResume outgoing(const wire::Resume& message,
                                     std::span<const std::uint32_t> verified = {}) {
  const std::uint32_t count = message.verified_length;
  const TaintLedger ledger = ledger_of(verified, count, message.tokens);
  return {.round = message.round,
          .session = message.session,
          .text = SafePrefix(ledger, count, ledger.count() - count),
          .policy = message.policy,
          .activations_from = message.activations_from,
          .parameters = SafeParameters(message.sampling, message.constraints),
          .run = message.run};
}

// Carries the hash of the tokens `behind`.
inline wire::OutgoingHints outgoing(const wire::Hints& message,
                                    std::span<const std::uint32_t> behind = {}) {
  return {.round = message.round,
          .credit = message.credit,
          .hold = message.hold,
          .complete = message.complete,
          .first = message.first,
          .hints = SafeHints(ledger_of(behind, message.position, {}), message.nodes)};
}

inline wire::OutgoingMessage outgoing(const wire::Message& message) {
  return std::visit(
      [](const auto& m) -> wire::OutgoingMessage {
        if constexpr (std::is_constructible_v<wire::OutgoingMessage, decltype(m)>) {
          return m;
        } else {
          return outgoing(m);
        }
      },
      message);
}

// `message` as it arrives after outgoing(). The sender cannot compute a hash of tokens that it
// lacks, so the hashes of Resume and hints become the hash of zeros.
inline wire::Message arriving(wire::Message message) {
  if (auto* resume = std::get_if<wire::Resume>(&message)) {
    resume->verified_hash = token_hash(std::vector<std::uint32_t>(resume->verified_length));
  }
  if (auto* hints = std::get_if<wire::Hints>(&message)) {
    if (!hints->complete)
      hints->prefix_hash = prefix_hash(std::vector<std::uint32_t>(hints->position));
  }
  return message;
}

}  // namespace edgedraft
