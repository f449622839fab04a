#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "client/generation/states/states.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/protocol/target_link.h"

namespace edgedraft::client {

// Writes answers: drafts, has the drafts verified, writes on alone if the server is unreachable,
// and resynchronises when it is back. One object per conversation; each answer builds on the tokens
// so far.
//
// It never blocks; its caller waits for the link:
//
//   generation.begin(prompt);
//   while (!generation.over()) generation.go_on(link.wait_event(generation.wait_end()));
//   const Result<GenerationEnd> end = generation.end();
//
// Requires  the references outlive it; a drafter unless options.tree is empty
class Generation {
 public:
  using Parts = GenerationParts;

  Generation(const Parts& parts, const GenerationOptions& options);
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // Sets the terms of further answers; initially, the options' hold. Requires  over()
  void set(const GenerationTerms& terms);

  // Begins the answer to `prompt`, the whole conversation as tokens. The prefix shared with the
  // tokens so far is not sent again. An unfinished answer is cancelled.
  void begin(std::span<const std::uint32_t> prompt);

  // Has the server check the offline text of the last answer; the check may correct and continue
  // it. Returns false if there is nothing to check, no server, or the answer was cancelled.
  //
  // Requires  over()
  bool begin_check();

  // Takes the link's event, or timed_out at wait_end(); during a run, also further events that are
  // ready. Then does one piece of work that needs no other input, such as a draft or an offline
  // token.
  //
  // Requires  !over()
  void go_on(Result<ClientEvent> told);
  // Latest time to call go_on(); in the past if there is work now.
  Instant wait_end() const { return wait_end_; }

  // Ends the answer at its current length.
  void cancel();

  // True if no answer is being written.
  bool over() const { return phase_ == Phase::over; }
  // How the last answer ended. Requires  over(), and one was begun
  //
  // Errors    link errors that a retry does not cure (untrusted, unauthorized, mismatch, ...);
  //           context_full for a prompt that is too long; unsupported for a drafter that cannot
  //           answer alone; link_down and timed_out if neither drafter nor writer can continue
  //           without the server, or the terms forbid it
  Result<GenerationEnd> end() const;

  const TaintLedger& ledger() const { return conversation_.ledger(); }
  // Index of the answer's first token in the ledger.
  std::uint32_t answer_first() const { return conversation_.answer_first(); }
  const GenerationStats& stats() const { return stats_; }
  // Measurements of server, link and drafter so far.
  const RunKnowledge& known() const { return answer_.drafting.known(); }

 private:
  // Works until the state waits for an event, and sets wait_end_.
  void work();
  void finish();
  void fail(const Error& error);
  State& state();

  Parts parts_;
  GenerationOptions options_;
  GenerationTerms terms_;
  Conversation conversation_;
  ServerView server_;
  DrafterMemory memory_;
  RequestInFlight request_;
  GenerationStats stats_;
  AnswerParts answer_{GenerationContext{parts_, options_, terms_, conversation_, server_, memory_,
                                        request_, stats_}};
  OpeningState opening_{answer_};
  OnlineState online_{answer_};
  OfflineState offline_{answer_};
  AwaitingCheckState awaiting_check_{answer_};
  Phase phase_ = Phase::over;
  std::optional<Error> failure_;  // set instead of an end
  Instant wait_end_{};
};

}  // namespace edgedraft::client
