#pragma once

#include <cstdint>

#include "client/generation/conversation.h"
#include "client/generation/generation_options.h"
#include "client/generation/online/drafter_memory.h"
#include "client/generation/online/server_view.h"
#include "client/generation/telemetry/generation_stats.h"
#include "shared/base/clock.h"

namespace edgedraft::client {

// The request that is in flight, or that is to be sent next.
struct RequestInFlight {
  bool asks = true;  // to be sent, or sent and not answered
  bool in_flight = false;
  Instant sent{};
  Instant deadline{};       // for any sign of the server
  Instant rows_deadline{};  // drafting waits until then for the prompt's newest activations
  bool running = false;     // answered, and the server continues
  Instant waits_since{};    // the device began to wait for the link

  std::uint32_t rows = 0;           // rows in the target's pass
  bool checked = false;             // the last tokens are to be checked, not kept
  std::uint32_t settled_count = 0;  // tokens that are final

  Instant drafted_at{};  // lockstep: when the hints were ready
  Duration drafting{};   // time spent on its hints
};

// State shared by a generation and its objects, which derive from this and have the same lifetime.
struct GenerationContext {
  const GenerationParts& parts_;
  const GenerationOptions& options_;
  const GenerationTerms& terms_;
  Conversation& conversation_;
  ServerView& server_;
  DrafterMemory& memory_;
  RequestInFlight& request_;
  GenerationStats& stats_;
};

}  // namespace edgedraft::client
