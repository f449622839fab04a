#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shared/base/logprob.h"
#include "shared/privacy/taint_ledger.h"

namespace edgedraft {

// How far device and server agree (docs/architecture.md, "States of a session").
enum class ClientState : std::uint8_t {
  online,     // every token is verified as it comes
  offline,    // the drafter writes on alone
  resyncing,  // the server is told what was written, and answers
};

std::string_view to_string(ClientState state);

// Told what happens to an answer, as it happens. Indices count the answer's tokens.
class GenerationObserver {
 public:
  virtual ~GenerationObserver() = default;
  virtual void on_token(std::uint32_t token, Provenance provenance) = 0;
  // What the target says of the answer's tokens from `first` on, before they are told: `per_token`
  // of each, its own and then the likeliest's. Only if the terms ask for it.
  virtual void on_logprobs(std::uint32_t first, std::span<const Logprob> told,
                           std::uint32_t per_token) {
    (void)first, (void)told, (void)per_token;
  }
  // The server chose the tokens [first, end) as well: they are verified. Those before stay what
  // they are.
  virtual void on_confirmed(std::uint32_t first, std::uint32_t end) = 0;
  // The first `count` tokens are final, no matter who chose them.
  virtual void on_kept(std::uint32_t count) = 0;
  // The tokens from `index` on are withdrawn; others follow.
  virtual void on_rewrite(std::uint32_t index) = 0;
  virtual void on_state(ClientState state, const std::string& why) = 0;
};

}  // namespace edgedraft
