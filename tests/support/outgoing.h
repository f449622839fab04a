#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "shared/base/prefix_hash.h"
#include "shared/protocol/outgoing.h"

namespace edgedraft {

// A conversation of tokens for which a test vouches: `first`, or as many zeros as that lacks, and
// behind the first `base_count` of them `rest`.
inline TaintLedger ledger_of(std::span<const std::uint32_t> first, std::uint32_t base_count,
                             std::span<const std::uint32_t> rest) {
  TaintLedger ledger;
  for (std::uint32_t i = 0; i < base_count; ++i) {
    ledger.append(i < first.size() ? first[i] : 0, Provenance::given);
  }
  for (const std::uint32_t token : rest) ledger.append(token, Provenance::given);
  return ledger;
}

// What a client sends for the server to read `message`.

inline wire::OutgoingPrefill outgoing(const wire::Prefill& message) {
  const TaintLedger ledger = ledger_of({}, message.base_length, message.tokens);
  return {.round = message.round,
          .text = SafePrefix(ledger, message.base_length, ledger.count() - message.base_length),
          .provisional_count = message.provisional_count,
          .policy = message.policy,
          .activations_from = message.activations_from,
          .parameters = SafeParameters(message.sampling, message.constraints),
          .run = message.run};
}

// The hash is that of the tokens `verified`.
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

// The hash is that of the tokens `behind`.
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

// `message` as it arrives after outgoing(): a sender cannot state the hash of tokens that it lacks,
// so those of a Resume and of hints become the hash of zeros.
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
