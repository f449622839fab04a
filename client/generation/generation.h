#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "client/generation/answer_tokens.h"
#include "client/generation/device_writing.h"
#include "client/generation/observer.h"
#include "client/generation/opening.h"
#include "client/generation/requests.h"
#include "client/generation/run_drafting.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/protocol/target_link.h"

namespace edgedraft {

// Writes answers: drafts, has them verified, writes on alone when the server is away and agrees
// with it again when it is back. One object a conversation; each answer builds on the tokens so
// far.
//
// It never waits; its caller does, for the link:
//
//   generation.begin(prompt);
//   while (!generation.over()) generation.go_on(link.wait_event(generation.wait_end()));
//   const Result<AnswerEnd> end = generation.end();
//
// Requires  the references outlive it; a drafter unless options.tree is nothing
class Generation {
 public:
  using Parts = GenerationParts;

  Generation(const Parts& parts, const GenerationOptions& options);
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // From the next answer on; until then options' terms hold. Requires  over()
  void set(const AnswerTerms& terms);

  // Begins the answer to `prompt`, the whole conversation as tokens; what it shares with the tokens
  // so far is not sent again. An answer that is not over is cancelled.
  void begin(std::span<const std::uint32_t> prompt);

  // Has the server check what the last answer wrote offline, if it is back; the answer may be
  // corrected and go on. False if there is nothing to check, or no server to do it; one that was
  // cancelled is left as it is.
  //
  // Requires  over()
  bool begin_check();

  // Goes on with what the link told by wait_end(), or with its timed_out: takes it in, of a run
  // also what the link can tell by now, and does one thing that needs nothing else, such as a draft
  // or a token written offline.
  //
  // Requires  !over()
  void go_on(Result<ClientEvent> told);
  // When to go on at the latest; in the past if there is something to do at once.
  Instant wait_end() const { return wait_end_; }

  // Ends the answer where it is.
  void cancel();

  // No answer is being written.
  bool over() const { return phase_ == Phase::over; }
  // How the last answer ended. Requires  over(), and one was begun
  //
  // Errors    those of the link that trying again does not cure (untrusted, unauthorized, mismatch,
  //           ...); context_full for a prompt that is too long, and unsupported for a drafter that
  //           cannot answer alone; link_down and timed_out only if nobody can go on without the
  //           server and the terms let them write
  Result<AnswerEnd> end() const;

  const TaintLedger& ledger() const { return conversation_.ledger(); }
  // Index of the answer's first token in the ledger.
  std::uint32_t answer_first() const { return conversation_.answer_first(); }
  const GenerationStats& stats() const { return stats_; }
  // What was learned of the server, the link and the drafter so far.
  const RunKnowledge& known() const { return drafting_.known(); }

 private:
  enum class Phase : std::uint8_t {
    opening,  // the server reads what stands before private text, for its activations
    writing,
    awaiting_check,  // written offline to its end: the server may come back and check it
    over,
  };

  // Does what can be done now, and says until when to wait for more.
  void work();
  void end_opening();
  void begin_writing();
  void finish();
  void fail(const Error& error);

  Result<void> take_all(const Result<ClientEvent>& told);
  Result<void> take(const Result<ClientEvent>& told);
  Result<void> take_online(const Result<ClientEvent>& told);
  Result<void> take_offline(const Result<ClientEvent>& told);
  void take_awaiting_check(const Result<ClientEvent>& told);
  Result<void> write_offline();
  void on_error_offline(const Error& error);
  void begin_resync();

  // Takes in what the link tells; a verdict that is still wanted goes on to on_verdict().
  Result<void> on_event(const ClientEvent& event);
  Result<void> on_link_error(const Error& error);
  Result<void> on_refused(const Error& error);
  bool may_ask_again() const { return !device_.device_writes() && requests_.may_ask(); }
  void on_verdict(const VerdictReceived& event);

  Result<void> send_wanted();
  void take_run(const VerdictReceived& event);
  void take_check(const wire::Verdict& verdict);
  // Tokens that the server can hold; 0: that does not matter, as for an answer that stays here.
  std::uint32_t server_room() const {
    return terms_.route == AnswerRoute::device ? 0 : server_.context_count;
  }
  void go_offline(const std::string& why);
  void enter(ClientState state, const std::string& why);
  std::uint32_t answer_count() const { return conversation_.answer_count(); }

  Parts parts_;
  GenerationOptions options_;
  AnswerTerms terms_;
  Conversation conversation_;
  ServerView server_;
  DrafterMemory memory_;
  RequestInFlight request_;
  GenerationStats stats_;
  GenerationContext context_{parts_,  options_, terms_,   conversation_,
                             server_, memory_,  request_, stats_};
  CycleNotes notes_{context_};
  AnswerTokens text_{context_, notes_};
  Requests requests_{context_};
  Opening opening_{context_, requests_};
  DeviceWriting device_{context_};
  RunDrafting drafting_{context_};
  ClientState state_ = ClientState::online;
  Phase phase_ = Phase::over;
  std::optional<Error> failure_;  // instead of an end
  Instant wait_begin_{};
  Instant wait_end_{};
};

}  // namespace edgedraft
