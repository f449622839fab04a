#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "client/generation/offline/device_writing.h"
#include "client/generation/online/opening.h"
#include "client/generation/online/requests.h"
#include "client/generation/online/run_drafting.h"
#include "client/generation/telemetry/observer.h"
#include "client/generation/token_writer.h"
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
  const RunKnowledge& known() const { return drafting_.known(); }

 private:
  enum class Phase : std::uint8_t {
    opening,  // the server reads the prefix before private text and returns its activations
    writing,
    awaiting_check,  // the text is complete offline; the server may return and check it
    over,
  };

  // Does the work that is possible now and sets wait_end_.
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

  // Takes an event of the link; passes on to on_verdict() a verdict that is still needed.
  Result<void> on_event(const ClientEvent& event);
  Result<void> on_link_error(const Error& error);
  Result<void> on_refused(const Error& error);
  bool may_ask_again() const { return !device_.device_writes() && requests_.may_ask(); }
  void on_verdict(const VerdictReceived& event);

  Result<void> send_wanted();
  void take_run(const VerdictReceived& event);
  void take_check(const wire::Verdict& verdict);
  // Tokens that the server can hold; 0: no limit, as for an answer that stays on the device.
  std::uint32_t server_room() const {
    return terms_.route == WritingSide::device ? 0 : server_.context_count;
  }
  void go_offline(const std::string& why);
  void enter(ClientState state, const std::string& why);
  std::uint32_t answer_count() const { return conversation_.answer_count(); }

  Parts parts_;
  GenerationOptions options_;
  GenerationTerms terms_;
  Conversation conversation_;
  ServerView server_;
  DrafterMemory memory_;
  RequestInFlight request_;
  GenerationStats stats_;
  GenerationContext context_{parts_,  options_, terms_,   conversation_,
                             server_, memory_,  request_, stats_};
  CycleNotes notes_{context_};
  TokenWriter text_{context_, notes_};
  Requests requests_{context_};
  Opening opening_{context_, requests_};
  DeviceWriting device_{context_};
  RunDrafting drafting_{context_};
  ClientState state_ = ClientState::online;
  Phase phase_ = Phase::over;
  std::optional<Error> failure_;  // set instead of an end
  Instant wait_begin_{};
  Instant wait_end_{};
};

}  // namespace edgedraft::client
