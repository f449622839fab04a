#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "client/control/draft_control.h"
#include "client/generation/conversation.h"
#include "client/generation/cycle_record.h"
#include "client/generation/drafter_memory.h"
#include "client/generation/generation_options.h"
#include "client/generation/generation_stats.h"
#include "client/generation/observer.h"
#include "client/generation/request_in_flight.h"
#include "client/generation/server_view.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/drafting/drafter.h"
#include "shared/protocol/target_link.h"

namespace edgedraft {

// Writes answers: drafts, has them verified, writes on alone when the server is away and agrees
// with it again when it is back. One object a conversation; each answer builds on the tokens so
// far.
//
// Requires  the references outlive it; a drafter unless options.tree is nothing
class Generation {
 public:
  struct Parts {
    TargetLink& link;
    Drafter* drafter;  // may be null for plain decoding
    GenerationObserver& observer;
    std::function<bool(std::uint32_t)> is_end;
    std::function<Instant()> now;
    std::function<bool()> cancelled;
    std::function<void(const CycleRecord&)> on_cycle{};          // may be empty
    std::function<void(const std::string& what)> on_decision{};  // of the draft control; the same
    // Where a pace is kept.
    std::function<void(Instant)> wait_until = [](Instant end) {
      std::this_thread::sleep_until(end);
    };
  };

  Generation(const Parts& parts, const GenerationOptions& options);

  // Answers `prompt`, the whole conversation as tokens; what it shares with the tokens so far is
  // not sent again.
  //
  // Errors    those of the link that trying again does not cure (untrusted, unauthorized, mismatch,
  //           ...); context_full for a prompt that is too long; link_down and timed_out only where
  //           there is no drafter to go on with
  Result<AnswerEnd> answer(std::span<const std::uint32_t> prompt);

  // Lets the server check what the last answer wrote offline, if it is back; the answer may be
  // corrected and go on. Nothing where there was nothing to do.
  Result<std::optional<AnswerEnd>> settle();

  const TaintLedger& ledger() const { return conversation_.ledger(); }
  // Index of the answer's first token in the ledger.
  std::uint32_t answer_first() const { return conversation_.answer_first(); }
  const GenerationStats& stats() const { return stats_; }

 private:
  Result<AnswerEnd> run();
  Result<void> step_online();
  Result<void> step_offline();
  // Until `give_up`, which it sets unless an earlier wait has.
  bool wait_for_server(std::optional<Instant>& give_up);
  void on_error_offline(const Error& error);
  void on_link_down(const Error& error);
  bool has_text_to_check() const;
  void begin_resync();

  // Takes in what the link tells; a verdict that is still wanted goes on to on_verdict().
  Result<void> on_event(const ClientEvent& event);
  Result<void> on_link_error(const Error& error);
  Result<void> on_refused(const Error& error);
  bool may_ask_again() const;
  Result<void> on_welcome(const wire::Welcome& welcome);
  void on_activations(const ActivationsReceived& event);
  void on_verdict(const VerdictReceived& event);
  void on_late_verdict(const VerdictReceived& event);
  void cut_off_where_due();
  Duration round_trip_of(const VerdictReceived& event, Instant taken);
  void observe(const VerdictReceived& event, Duration round_trip);
  void note_verdict(const VerdictReceived& event, Duration round_trip, std::uint32_t count_before);
  void note(CycleRecord record);
  Result<void> drain_events();

  Result<void> send_wanted();
  Result<void> send_tokens();
  Result<void> send_draft();
  Result<void> send_stream();
  DraftControl::Decision decide();
  void plan_next();
  void look_again();
  void end_stream();
  void take_cycle(const VerdictReceived& event);
  void take_streamed(const wire::Verdict& verdict);
  void take_check(const wire::Verdict& verdict);
  void write(std::uint32_t token, Provenance provenance);
  void end_where_due(wire::Ending ending);
  // The same for what the drafter wrote alone.
  void end_where_written();
  void go_offline(const std::string& why);
  void enter(ClientState state, const std::string& why);
  void drop_from(std::uint32_t count);
  std::uint32_t answer_count() const { return conversation_.answer_count(); }
  // Waits until so many drafting steps would have taken their time. Returns that time.
  Duration keep_pace(Instant started, std::uint32_t steps);

  Parts parts_;
  GenerationOptions options_;
  Conversation conversation_;
  ServerView server_;
  DrafterMemory memory_;
  RequestInFlight request_;
  DraftControl control_;
  StreamPlan plan_;
  GenerationStats stats_;
  ClientState state_ = ClientState::online;
  std::optional<AnswerEnd> end_;
  Instant started_{};
  bool cut_off_ = false;  // by offline_after
  LinkStats noted_link_;  // when the last record was made
};

}  // namespace edgedraft
