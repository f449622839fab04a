#pragma once

#include <cstdint>

#include "client/generation/conversation.h"
#include "client/generation/drafter_memory.h"
#include "client/generation/generation_options.h"
#include "client/generation/generation_stats.h"
#include "client/generation/server_view.h"
#include "shared/base/clock.h"

namespace edgedraft {

// The request that the server owes an answer to, or that is to be sent next.
struct RequestInFlight {
  bool asks = true;  // it is to be sent, or sent and not answered
  bool in_flight = false;
  Instant sent{};
  Instant deadline{};       // of the server's silence
  Instant rows_deadline{};  // until then drafting waits for the prompt's newest activations
  bool running = false;     // it was answered, and the server goes on

  std::uint32_t rows = 0;           // of the target's pass
  bool checked = false;             // the last of its tokens are to be checked, not kept
  std::uint32_t settled_count = 0;  // of its tokens, those beyond doubt

  Instant drafted_at{};  // under lockstep: when the hints were ready
  Duration drafting{};   // its hints
};

// State that a generation shares with its objects. They derive from it and live as long.
struct GenerationContext {
  const GenerationParts& parts_;
  const GenerationOptions& options_;
  const AnswerTerms& terms_;
  Conversation& conversation_;
  ServerView& server_;
  DrafterMemory& memory_;
  RequestInFlight& request_;
  GenerationStats& stats_;
};

}  // namespace edgedraft
