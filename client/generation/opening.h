#pragma once

#include <cstdint>
#include <optional>

#include "client/generation/generation_stats.h"
#include "client/generation/requests.h"

namespace edgedraft {

// An answer to a prompt with private text, of which the server reads what stands before that: the
// drafter then writes from the target's activations of it, as in appendix A.6 of *Mixture of
// Attentions*, where the server is gone.
class Opening {
 public:
  // Requires  the references outlive it
  Opening(const GenerationParts& parts, const GenerationOptions& options, const AnswerTerms& terms,
          const Conversation& conversation, ServerView& server, DrafterMemory& memory,
          RequestInFlight& request, Requests& requests, GenerationStats& stats)
      : parts_(parts),
        options_(options),
        terms_(terms),
        conversation_(conversation),
        server_(server),
        memory_(memory),
        request_(request),
        requests_(requests),
        stats_(stats) {}

  bool is_wanted(std::uint32_t open_count) const;
  // Asks for the activations. Returns until when to wait for them; nothing: no longer.
  std::optional<Instant> work();
  // Returns false if there will be no more. Errors    those of the link
  Result<bool> take(const Result<ClientEvent>& told);

 private:
  const GenerationParts& parts_;
  const GenerationOptions& options_;
  const AnswerTerms& terms_;
  const Conversation& conversation_;
  ServerView& server_;
  DrafterMemory& memory_;
  RequestInFlight& request_;
  Requests& requests_;
  GenerationStats& stats_;
};

}  // namespace edgedraft
