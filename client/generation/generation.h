#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "client/control/draft_control.h"
#include "shared/base/clock.h"
#include "shared/drafting/drafter.h"
#include "shared/privacy/taint_ledger.h"
#include "shared/protocol/target_link.h"
#include "shared/speculative/sampling.h"

namespace edgedraft {

// How far device and server agree (docs/architecture.md, "States of a session").
enum class ClientState : std::uint8_t {
  online,     // every token is verified as it comes
  offline,    // the drafter writes on alone
  resyncing,  // the server is told what was written, and answers
};

std::string_view to_string(ClientState state);

// Told what happens to an answer, as it happens. Indices count the answer's tokens.
class GenerationObserver {
 public:
  virtual ~GenerationObserver() = default;
  virtual void on_token(std::uint32_t token, Provenance provenance) = 0;
  // The server chose the first `count` tokens as well: they are verified.
  virtual void on_confirmed(std::uint32_t count) = 0;
  // The tokens from `index` on are withdrawn; others follow.
  virtual void on_rewrite(std::uint32_t index) = 0;
  virtual void on_state(ClientState state, const std::string& why) = 0;
};

// A step of an answer, for whoever measures: a cycle, a prompt or resync, a token written offline,
// or a change of state. Times on the device's clock but for those of `server`.
struct CycleRecord {
  enum class Kind : std::uint8_t { prompt, draft, resync, offline, state };
  Kind kind{};
  Duration at{};                    // since the answer was asked for; its tokens are shown then
  std::uint32_t tokens = 0;         // that became visible
  std::uint32_t answer_tokens = 0;  // of the answer so far

  Duration drafting{};       // growing the tree, a pace kept included
  Duration drafting_pace{};  // what it was to take at least; 0: no pace is kept
  Duration drafted_in{};     // what it took before any waiting
  Duration pack{};           // from the finished tree until the request was with the socket
  Duration round_trip{};     // from then, or from a stream's verdict before, to the last byte
  Duration unpack{};         // from then until the rows were in the drafter's memory
  struct Server {            // on its clock
    std::uint32_t queue_us = 0;
    std::uint32_t verify_us = 0;
    std::uint32_t pace_us = 0;
    std::uint32_t computed_us = 0;
    std::uint32_t draft_us = 0;  // of its own drafting, before it waited for the pass
  } server;

  std::uint32_t rows = 0;  // of the target's pass: the root and nodes, or tokens of a prompt
  std::uint32_t accepted = 0;
  bool streamed = false;  // a verdict of a stream: the server's own step
  LinkStats link;         // since the record before: bytes of what came in between are in here
  std::optional<LinkTimes::Tcp> tcp;

  ClientState state{};  // Kind::state: the new one, and why
  std::string why;
};

std::string_view to_string(CycleRecord::Kind kind);

// Who decides between drafting and streams (docs/architecture.md, "Drafting or streaming").
enum class ControlMode : std::uint8_t {
  off,        // always drafts, within the row budget; plain decoding is a round trip a token
  automatic,  // DraftControl; plain decoding streams
};

struct GenerationOptions {
  std::optional<TreeShape> tree;  // nothing: plain decoding
  std::uint32_t tokens_max;
  std::uint32_t context_count;  // tokens that the drafter can hold; 0: any number
  SamplingParams sampling;
  Duration deadline;  // silence of the server after which the drafter writes on alone
  wire::ResyncPolicy resync;
  // How long an answer that ended offline waits for the server to check it.
  Duration resync_wait;
  // Least time of an offline token and of a tree: a small drafter at a larger one's pace.
  Duration pace;
  // The same for each drafting step: a tree takes as many as it has levels.
  Duration step_pace{};
  // Behaves from so many tokens on as if the link were gone for good: for experiments. What a
  // verdict brings beyond them is dropped; the prompt's activations are waited for.
  std::optional<std::uint32_t> offline_after{};
  ControlMode control = ControlMode::off;
};

// Counted over one answer.
struct GenerationStats {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t tokens = 0;        // of the answer, its end token included
  std::uint32_t cycles = 0;        // drafts answered, and verdicts of streams
  std::uint32_t cycle_tokens = 0;  // tokens that they brought: accepted ones and the target's own
  std::uint32_t target_calls = 0;  // cycles, prompts and resyncs
  std::uint32_t drafted = 0;       // by the device or, for its streams, by the server
  std::uint32_t accepted = 0;
  std::uint32_t streamed_tokens = 0;
  std::string streamed_because;  // the last decision to stream; empty where there was none
  std::uint32_t offline_tokens = 0;
  std::uint32_t rewritten_tokens = 0;
  std::uint32_t resyncs = 0;
  // Passes of the target at a pace that was kept for it, and how many took longer than that; the
  // same for trees and offline tokens of the drafter. Late ones distort what is measured.
  std::uint32_t paced_passes = 0;
  std::uint32_t late_passes = 0;
  std::uint32_t late_drafts = 0;
  Duration elapsed{};
  Duration first_token_elapsed{};
  Duration drafting{};
  Duration waiting{};

  // Of several answers together.
  GenerationStats& operator+=(const GenerationStats& other);
  // Mean tokens a cycle, the target's own included: plain decoding is 1.
  double acceptance_length() const {
    return cycles == 0 ? 1.0 : static_cast<double>(cycle_tokens) / cycles;
  }
};

enum class AnswerEnd : std::uint8_t {
  end_token,   // the model ended it
  tokens_max,  // as long as was asked for
  context,     // the context is full
  cancelled,   // by the user
};

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

  const TaintLedger& ledger() const { return ledger_; }
  // Index of the answer's first token in the ledger.
  std::uint32_t answer_first() const { return answer_first_; }
  const GenerationStats& stats() const { return stats_; }

 private:
  Result<AnswerEnd> run();
  Result<void> step_online();
  Result<void> step_offline();
  bool wait_for_server();
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
  TreeShape affordable_tree() const;
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
  std::uint32_t answer_count() const { return ledger_.count() - answer_first_; }
  // Waits until so many drafting steps would have taken their time. Returns that time.
  Duration keep_pace(Instant started, std::uint32_t steps);

  Parts parts_;
  GenerationOptions options_;
  TaintLedger ledger_;
  GenerationStats stats_;
  ClientState state_ = ClientState::online;
  std::optional<AnswerEnd> end_;
  Instant started_{};
  Instant sent_{};           // the last request
  Instant drafted_at_{};     // its tree was there
  Instant wait_deadline_{};  // of the server's silence
  Instant rows_deadline_{};  // until then a draft waits for the prompt's newest activations

  std::uint32_t answer_first_ = 0;
  // Leading tokens that are beyond doubt: given, verified, or kept. Behind them stands what was
  // written offline and awaits the server.
  std::uint32_t settled_count_ = 0;
  std::uint32_t server_count_ = 0;  // leading tokens that the server is known to hold

  // The link.
  bool signed_in_ = false;
  std::optional<Error> link_error_;  // why it is down, since it was told
  bool link_closed_ = false;         // for a reason that trying again does not cure
  bool in_flight_ = false;
  enum class Wanted : std::uint8_t { tokens, draft } wanted_ = Wanted::tokens;
  std::optional<wire::SessionId> session_;  // the server's name for this conversation
  std::optional<wire::SessionId>
      fresh_session_;  // that of a new connection, until tokens are put in
  std::uint32_t nodes_max_ = 0;
  std::uint32_t row_budget_ = 0;
  std::uint32_t stream_tokens_max_ = 0;
  std::uint32_t context_count_ = 0;  // the smaller of both sides' contexts; 0: not known
  Instant ask_again_{};              // not before: the server had no room

  // In flight.
  DraftTree tree_;
  bool checked_ = false;  // the last tokens were sent to be checked, not kept
  std::uint32_t sent_rows_ = 0;
  std::uint32_t drafted_levels_ = 0;
  bool streaming_ = false;      // the draft asked for a stream
  bool stream_begins_ = false;  // which has brought nothing yet
  Instant last_received_{};
  CycleRecord draft_record_;  // what is known of the cycle when its draft leaves
  LinkStats noted_link_;      // when the last record was made
  bool cut_off_ = false;      // by offline_after

  // What comes next.
  DraftControl control_;
  std::uint32_t stream_tokens_ = 0;  // 0: a draft
  std::uint32_t look_after_ = 0;
  std::uint32_t streamed_since_look_ = 0;
  bool rows_lacking_ = false;  // a stream brought none

  std::uint32_t activations_end_ = 0;  // positions below have theirs
  std::uint32_t rows_end_ = 0;         // newest position that has, once the older ones came too
  bool rows_pending_ = false;
};

}  // namespace edgedraft
