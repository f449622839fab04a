#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shared/privacy/taint_ledger.h"
#include "shared/types/logprob.h"

namespace edgedraft::client {

// How far device and server agree (docs/architecture.md, "States of a session").
enum class ClientState : std::uint8_t {
  online,     // every token is verified before it is shown
  offline,    // the drafter writes alone
  resyncing,  // offline text was sent, and the server's reply is pending
};

inline std::string_view to_string(ClientState state) {
  constexpr std::string_view kNames[] = {"online", "offline", "resyncing"};
  return kNames[static_cast<std::size_t>(state)];
}

// Receives the events of an answer as they occur. Indices count the answer's tokens.
class GenerationObserver {
 public:
  virtual ~GenerationObserver() = default;
  virtual void on_token(std::uint32_t token, Provenance provenance) = 0;
  // Log probabilities of the answer's tokens from `first` on, reported before the tokens:
  // `per_token` each, the token's own and then the likeliest. Only if the terms ask for them.
  virtual void on_logprobs(std::uint32_t first, std::span<const Logprob> told,
                           std::uint32_t per_token) {
    (void)first, (void)told, (void)per_token;
  }
  // The server chose the tokens [first, end) as well, so they are verified. Earlier tokens are
  // unchanged.
  virtual void on_confirmed(std::uint32_t first, std::uint32_t end) = 0;
  // The first `count` tokens are final, whichever side chose them.
  virtual void on_kept(std::uint32_t count) = 0;
  // The tokens from `index` on are withdrawn and will be replaced.
  virtual void on_rewrite(std::uint32_t index) = 0;
  virtual void on_state(ClientState state, const std::string& why) = 0;
};

}  // namespace edgedraft::client
