#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "client/generation/generation_context.h"

namespace edgedraft {

// Sends the requests of an answer, and takes in welcomes, activations and late verdicts.
class Requests : GenerationContext {
 public:
  explicit Requests(const GenerationContext& context) : GenerationContext(context) {}

  bool may_send() const;
  // Also requires a link that may recover and, after a refusal, the end of the wait.
  bool may_ask() const;
  // While nothing is written offline: when to look for the server without having been told.
  Instant next_look() const;
  bool awaits(VerdictReceived::To to) const;
  bool has_text_to_check() const;

  // Tokens of the next request that the server will not check.
  std::uint32_t count_beyond_doubt() const {
    return options_.resync == wire::ResyncPolicy::check ? conversation_.settled_count()
                                                        : conversation_.count();
  }
  // Sets the times of a request that is about to be sent. Requires  may_send()
  void begin();
  // Begins a request and sends the tokens that the server lacks. Without run terms it asks for no
  // answer.
  Result<void> send_tokens(const std::optional<wire::RunTerms>& run);

  // Takes in a welcome or activations; ignores other events.
  Result<void> take(const ClientEvent& event);
  void take_late(const VerdictReceived& event);
  // Takes in what the link has told between answers.
  Result<void> drain();
  // The link has gone down.
  void lost(const Error& error);

  // Cancels what the server is asked for, or goes on with.
  void drop();
  // The answer has ended for us, and may not have for the server.
  void end_run();
  // The conversation ends before its token `count`.
  void drop_from(std::uint32_t count);
  // Another answer begins, which has the first `count` tokens in common with the text so far.
  void keep(std::uint32_t count) {
    drop_from(count);
    unchanged_count_ = std::min(unchanged_count_, count);
  }

 private:
  Result<void> take_welcome(const wire::Welcome& welcome);
  void take_activations(const ActivationsReceived& event);
  // Constraints of the law, from the answer's first token on.
  Constraints constraints() const;

  std::uint32_t unchanged_count_ = 0;  // tokens that stand as the last run left them
};

}  // namespace edgedraft
