#pragma once

#include "client/generation/conversation.h"
#include "client/generation/drafter_memory.h"
#include "client/generation/generation_options.h"
#include "client/generation/generation_stats.h"
#include "client/generation/request_in_flight.h"
#include "client/generation/server_view.h"

namespace edgedraft {

// What a generation shares with its objects, which derive from it. Requires  all of it outlives
// them
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
