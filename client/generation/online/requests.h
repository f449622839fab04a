#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "client/generation/generation_context.h"

namespace edgedraft::client {

// Sends an answer's requests and takes in welcomes, activations and late verdicts.
class Requests : GenerationContext {
 public:
  explicit Requests(const GenerationContext& context) : GenerationContext(context) {}

  bool may_send() const;
  // Like may_send(), on a link that is not closed and not before ServerView::ask_again.
  bool may_ask() const;
  // Next time to check for the server without an event, while nothing is written offline.
  Instant next_look() const;
  bool awaits(VerdictReceived::To to) const;
  bool has_text_to_check() const;

  // Tokens of the next request that the server will not check.
  std::uint32_t count_beyond_doubt() const {
    return options_.resync == wire::ResyncPolicy::check ? conversation_.settled_count()
                                                        : conversation_.count();
  }
  // Sets the times of the request that is about to be sent. Requires  may_send()
  void begin();
  // Begins a request and sends the tokens that the server lacks. Without run terms it asks for no
  // answer.
  Result<void> send_tokens(const std::optional<wire::RunTerms>& run);

  // Measures the time spent waiting for the link. Returns the time.
  Instant begin_wait() { return request_.waits_since = parts_.now(); }
  void end_wait() { stats_.waiting += parts_.now() - request_.waits_since; }

  // Takes in a welcome, activations or a sign that the server reads; ignores other events.
  Result<void> take(const ClientEvent& event);
  void take_late(const VerdictReceived& event);
  // Takes in the link's events between answers.
  Result<void> drain();
  // Call after the link has gone down.
  void lost(const Error& error);

  // Cancels the current request or run.
  void drop();
  // Ends the run on this side; the server may still be running it.
  void end_run();
  // Removes the tokens from `count` on.
  void drop_from(std::uint32_t count);
  // Begins another answer that shares the first `count` tokens with the text so far.
  void keep(std::uint32_t count) {
    drop_from(count);
    unchanged_count_ = std::min(unchanged_count_, count);
  }

 private:
  Result<void> take_welcome(const wire::Welcome& welcome);
  void take_activations(const ActivationsReceived& event);
  // The answer's constraints, from its first token on.
  Constraints constraints() const;

  std::uint32_t unchanged_count_ = 0;  // tokens unchanged since the last run
};

}  // namespace edgedraft::client
