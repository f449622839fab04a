#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "server/load/row_budget.h"
#include "server/load/start_measurement.h"
#include "server/metrics/metrics.h"
#include "server/passes/device_probe.h"
#include "server/passes/pass.h"
#include "server/proposers/speculation.h"
#include "server/sessions/session_fault.h"
#include "server/sessions/session_store.h"
#include "shared/base/clock.h"
#include "shared/drafting/tap.h"

namespace edgedraft {

// Where a connection's answers go. What is said after its end goes nowhere.
class Replies {
 public:
  virtual ~Replies() = default;
  virtual void verdict(wire::Verdict verdict) = 0;
  virtual void activations(wire::Activations chunk) = 0;
  virtual void refuse(std::uint32_t round, Error error) = 0;
  // Whether the client is so far behind in reading that a stream has to pause.
  virtual bool full() const { return false; }
};

// What a request needs to know of its connection.
struct Client {
  std::uint64_t connection_id;
  std::shared_ptr<Replies> reply;
  wire::SessionId session;
  std::string identity;  // who signed in: only they may resume the session
  Tap* tap;              // null where the drafter needs none
  // Clients with the same number have the same drafter; 0: one that the server does not know.
  std::uint32_t drafter = 0;
};

using TargetWork = std::variant<wire::Prefill, wire::Resume, wire::Draft>;

std::uint32_t round_of(const TargetWork& request);

struct PassLoopOptions {
  SessionStore::Limits sessions{};
  // Least time of a pass over so many rows: a small model at a larger one's pace. Empty, or zero:
  // none.
  std::function<Duration(std::uint32_t rows)> pace{};
  // Waits for the end of a paced pass.
  std::function<void(Instant)> wait_until = [](Instant end) { std::this_thread::sleep_until(end); };
  std::uint32_t pass_rows_max = kMaskRowsMax;
  // Rows of prompts in a pass that has drafts as well.
  std::uint32_t prompt_rows = 64;
  // Rows a draft, root included, that clients are told; 0: what gives all of them together the most
  // tokens a second.
  std::uint32_t row_budget = 0;
  // Requests that had no pass for so long are refused: their clients went on without them. 0:
  // never.
  Duration wait_max{};
  // Drafts for sessions that stream; null: they go on a token a pass. Outlives the loop.
  Speculation* speculation = nullptr;
  // Told why a session was dropped whose state contradicted itself.
  std::function<void(const std::string& why)> on_session_fault = [](const std::string&) {};
  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
};

// The target's work in passes, each with the drafts of all waiting sessions and parts of prompts.
// It owns the sessions and knows neither threads nor queues: Scheduler drives it by the clock,
// benchmarks by a simulated one.
//
// Order     Drafts go first, in the order in which they came; prompts share prompt_rows a pass, or
//           the whole pass where there is no draft, in turns. A draft that does not fit waits and
//           holds up those behind it, and prompts that got nothing in a pass come first in the
//           next: nobody waits longer than for what was there before them. A stream comes behind
//           the others again after each of its passes, and pauses where its client does not read.
// Memory    Prompts that get no pages for their keys and values wait in line, oldest first, and
//           hold none. A draft that gets none waits, too; the one that came first gets its pages
//           before the line does, when no prompt runs at the cost of paused streams, then of the
//           drafts that came last, which are refused with session_unknown.
// Peers     What a client asks for, in whichever order, costs its own session at most: what does
//           not fit what the session holds is refused with session_unknown, and the client sends
//           everything again.
// Threads   one
class PassLoop {
 public:
  // Requires  1 <= prompt_rows < pass_rows_max <= kMaskRowsMax
  PassLoop(const SessionParts& parts, const PassLoopOptions& options, std::function<Instant()> now);

  // Measures what passes cost, and activations through these taps, before anybody is served: the
  // first budgets and outlooks then are right. Ends before `time_max` where the device's first pass
  // does not take longer than that. Throws DeviceError. Requires  no session yet
  struct StartReport {
    std::vector<StartCosts::Sample> passes;  // paces included; none where there was too little time
    Duration took;
  };
  StartReport measure_costs(Duration time_max, std::span<Tap* const> taps);

  // Takes in a request; the answer goes to client.reply, here where it is refused, else from a
  // step. A connection has one request at a time.
  void begin(const Client& client, const TargetWork& request, Instant posted);
  // Drops the connection's work on that round.
  void cancel(std::uint64_t connection_id, std::uint32_t round);
  // The connection is over: its work is dropped, its session may be resumed or evicted.
  void end(std::uint64_t connection_id);

  struct Count {
    std::uint64_t passes = 0;
    std::uint64_t rows = 0;  // of all passes
  };
  const Count& count() const { return count_; }
  // Requests that have no answer yet.
  std::size_t active_count() const { return turns_.size(); }
  // Whether a step would do nothing, unless memory becomes free with time (waiting_count() > 0) or
  // a stream's client reads.
  bool idle() const;
  // Prompts in line for memory.
  std::size_t waiting_count() const { return waiting_count_; }
  SessionStore::Memory memory() const { return sessions_.memory(); }
  // One pass, and one chunk of the activations that prompts still owe.
  void step();

 private:
  struct Job {
    const Client& client;
    Instant posted;
  };
  // A request that takes part in passes.
  struct Active {
    Client client;
    Session* session;
    std::uint32_t round;
    Instant posted;
    std::optional<Instant> started;
    // Of the passes that it took part in: what they were to take, and what they took.
    Duration pace{};
    Duration computed{};
    std::uint32_t kept_count = 0;  // tokens written offline that became context
    bool waits = false;            // in line for memory
    // Of a prompt: whether it brought tokens, or goes on where a stream ended; the first position
    // whose rows the client lacks.
    bool is_new = false;
    std::uint32_t rows_from = 0;
    // Of a draft: the first position that becomes valid, and its rows.
    std::uint32_t valid_from = 0;
    std::uint32_t rows = 0;
    // Of a stream: tokens that it has still to bring, and what the server drafted for its next
    // pass.
    std::uint32_t stream_left = 0;
    Drafted drafted{};
    std::optional<Instant> streamed_at{};  // its last verdict

    bool paused() const { return stream_left > 0 && client.reply->full(); }
  };
  // Rows that a client still has to get: [first, end), newest chunks first.
  struct RowsOwed {
    Client client;
    std::uint32_t round;
    std::uint32_t first;
    std::uint32_t end;
  };

  void begin(const Job& job, const wire::Prefill& request);
  void begin(const Job& job, const wire::Resume& request);
  void begin(const Job& job, const wire::Draft& request);
  void begin_prompt(const Job& job, Session& session, const PrefillRequest& request,
                    std::uint32_t round, std::uint32_t kept_count, std::uint32_t rows_from);

  // Refuses a request of the client, and counts it.
  void refuse(const Client& client, std::uint32_t round, Refusal why, Error error);
  // The client's session contradicts itself, or disagrees with the device: its request is refused,
  // and it is forgotten. The request is to leave turns_.
  void give_up(const Client& client, std::uint32_t round, const SessionFault& fault);
  void give_up(const Client& client, std::uint32_t round, const DeviceError& failure);
  // Rows that the client's earlier prompt still owes are not wanted any more.
  void drop_owed(const Client& client);
  // The next pass of a stream; its session has no request.
  void begin_step(Active& stream);

  // Memory (pass_memory.cpp). Lets a prompt that has been begun run or wait; false where it was
  // refused.
  bool admit_or_queue(Active& active);
  void admit_waiting();
  // False: it has to wait for prompts that run.
  bool secure_first_draft();
  // The request that gives its memory up for the first draft's sake: a paused stream, else the
  // draft that came last.
  std::deque<Active>::iterator last_to_hold_pages();
  void refuse_overdue();
  void remember(const std::vector<PassShare>& shares);

  void run_next_pass();
  std::vector<PassShare> share_out();
  void deliver(Active& active, const Outcome& outcome, Instant finished);
  void deliver(Active& active, const PrefillOutcome& outcome, wire::Verdict verdict,
               Instant finished);
  void deliver(Active& active, const VerifiedPath& path, wire::Verdict verdict, Instant finished);
  void deliver_streamed(Active& stream, const VerifiedPath& path, wire::Verdict verdict,
                        Instant finished);
  void send_owed_rows();
  // Who is at work.
  void count_busy_sessions(Instant now);
  // What every verdict tells of the load, and those on prompts of drafts.
  void tell_costs(const Active& active, bool to_prompt, wire::Verdict& verdict) const;

  void count_answer(const Active& active, const Outcome& outcome, Instant finished);
  void count_sessions();
  void device_failed(const DeviceError& failure);

  // The session gives the request up, which is to leave turns_.
  void let_go(const Active& active);
  // The same, telling the client why. A prompt has already dropped what it was to replace, and its
  // client believes that the session is as it was: such a session is forgotten.
  void turn_away(const Active& active, Refusal why, Error error);
  // Drops the work that `unwanted` says so of, by connection and round.
  void drop(const std::function<bool(std::uint64_t, std::uint32_t)>& unwanted);

  Decoder& decoder_;
  PassLoopOptions options_;
  std::function<Instant()> now_;
  std::shared_ptr<Metrics> metrics_;
  DeviceProbe probe_;
  SessionStore sessions_;
  RowBudget budget_;
  std::deque<Active> turns_;
  std::deque<RowsOwed> owed_;
  Count count_;
  bool prompts_first_ = false;
  std::size_t waiting_count_ = 0;
  std::uint32_t busy_sessions_ = 1;
  // While as many are at work:
  std::uint32_t row_budget_;
  bool prefers_streams_ = false;  // all together would get more from streams than from drafts
  RunningMean streamed_;          // seconds a token of streams that the server drafts for
};

}  // namespace edgedraft
