#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "server/load/start_measurement.h"
#include "server/metrics/metrics.h"
#include "server/passes/admission.h"
#include "server/passes/delivery.h"
#include "server/passes/device_probe.h"
#include "server/passes/hint_selection.h"
#include "server/passes/pass_planner.h"
#include "server/passes/pass_trees.h"
#include "server/passes/quota.h"
#include "server/passes/request.h"
#include "server/proposers/speculation.h"
#include "server/sessions/pass.h"
#include "server/sessions/session_fault.h"
#include "server/sessions/session_store.h"
#include "shared/base/clock.h"
#include "shared/forecast/cost_curve.h"

namespace edgedraft::server {

struct PassLoopOptions {
  SessionStore::Limits sessions{};
  // Minimum pass time for a row count. Empty: none.
  std::function<Duration(std::uint32_t rows)> pace{};
  // Waits for the end of a paced pass.
  std::function<void(Instant)> wait_until = [](Instant end) { std::this_thread::sleep_until(end); };
  std::uint32_t pass_rows_max = kMaskRowsMax;
  // Prompt rows per pass if drafts are present.
  std::uint32_t prompt_rows = 64;
  // Requests without a pass for this long are refused, since their clients have continued without
  // them. 0: never.
  Duration wait_max{};
  // Drafts for runs; null: one token per pass without hints. Must outlive the loop.
  Speculation* speculation = nullptr;
  Economy economy = Economy::as_asked;
  // Called with the reason if a session with inconsistent state is dropped.
  std::function<void(const std::string& why)> on_session_fault = [](const std::string&) {};
  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
};

// Runs the target in passes; each combines the drafts of all waiting sessions and parts of prompts.
// It owns the sessions and has no threads or queues of its own: Scheduler drives it by the clock,
// benchmarks by a simulated one.
//
// PassPlanner selects requests for a pass, Admission grants memory, Delivery answers. A request
// waits only for earlier ones: after a pass it queues behind the others, and a run pauses while its
// client does not read.
//
// Peers   No sequence of requests costs more than the client's own session. A request that does not
//         match the session's state is refused with session_unknown, and the client resends
//         everything.
// Errors    a failure while serving a request, such as host memory, drops its session like a device
//           failure. An exception that escapes a call belongs to no request: call give_up_all().
// Threads   one
class PassLoop {
 public:
  // Requires  1 <= prompt_rows < pass_rows_max <= kMaskRowsMax
  PassLoop(const SessionParts& parts, const PassLoopOptions& options, std::function<Instant()> now);

  // Measures pass costs before clients connect, so that the first hint choices are sound. Ends
  // before `time_max` unless the first pass alone takes longer. Throws DeviceError.
  // Requires  no session yet
  struct StartReport {
    std::vector<StartSample> passes;  // pacing included; empty if there was too little time
    Duration took;
  };
  StartReport measure_costs(Duration time_max);

  // Accepts a request; the answer goes to client.reply, at once if refused, else from a step. One
  // request per connection at a time.
  void begin(const Client& client, const TargetWork& request, Instant posted);
  // Adds hints and credit to the connection's run of that round; ignored if it is over.
  void hints(std::uint64_t connection_id, const wire::Hints& hints, Instant posted);
  // Drops the connection's work on that round.
  void cancel(std::uint64_t connection_id, std::uint32_t round);
  // Drops a closed connection's work; its session may be resumed or evicted.
  void end(std::uint64_t connection_id);

  struct Count {
    std::uint64_t passes = 0;
    std::uint64_t rows = 0;  // in all passes
  };
  const Count& count() const { return count_; }
  // Requests without an answer.
  std::size_t active_count() const { return turns_.size(); }
  // Runs among them that wait for their clients, as of the last step.
  std::size_t paused_count() const { return paused_count_; }
  // True if a step would do nothing. Freed memory (waiting_count() > 0), a client that reads, or
  // due() can change that.
  bool idle() const;
  // When the first run waiting for hints continues without them; empty if none waits.
  std::optional<Instant> due() const;
  // Prompts queued for memory.
  std::size_t waiting_count() const { return admission_.waiting_count(); }
  SessionStore::Memory memory() const { return sessions_.memory(); }
  // Runs one pass and sends one chunk of owed activations.
  void step();
  // After an exception of unknown extent: refuses every request and drops its session. The loop is
  // usable afterwards.
  void give_up_all(const std::exception& failure);

 private:
  // Tokens to append, and their request.
  struct Prompt {
    PrefillRequest tokens;
    PromptTurn turn;
  };

  void begin_work(const Client& client, const wire::Prefill& request, Instant posted);
  void begin_work(const Client& client, const wire::Resume& request, Instant posted);
  // `session` is null if none exists yet.
  template <typename Message>
  static Prompt prompt_of(const Client& client, Session* session, const Message& request,
                          std::uint32_t base_count, std::uint32_t provisional_count,
                          Instant posted);
  // Checks a prompt as far as possible before its session is created, so that a refused prompt
  // evicts no session. Resolves its constraint.
  bool may_begin(Prompt& prompt, const Constraints& constraints);
  void begin_prompt(Prompt prompt, const wire::RunTerms& terms);
  // Refuses a request whose identity has used up its tokens per minute, and returns false.
  bool has_tokens(const Client& client, std::uint32_t round);
  // Charges the identity for the rows of the last pass that its prompt or its hints asked for. The
  // server's own guesses and probes are free.
  void charge(const PromptTurn& turn);
  void charge(const RunTurn& turn);
  void charge(const Client& client, std::uint32_t rows);
  // Answers a prompt of provisional tokens that the session has already decided, on credit from
  // before the connection broke. Returns false if it needs a pass.
  bool answer_decided(Prompt& prompt, const wire::RunTerms& terms);
  // The run after a prompt's answer; null without credit.
  std::unique_ptr<Run> run_behind(std::span<const std::uint32_t> tokens,
                                  const wire::RunTerms& terms) const;
  // Gives each run of the next pass the hints and guesses worth their rows, or holds it for more
  // hints.
  void choose_hints();

  // Updates which runs are paused.
  void look_for_pauses();
  void refuse_overdue();
  // Shares of the next pass; turns point to them.
  std::vector<PassShare> plan();
  // Runs the pass. Returns the error if the device failed.
  std::optional<DeviceError> run(std::vector<PassShare>& shares);
  // Answers, drops or requeues each participant.
  void settle(const std::optional<DeviceError>& failed);
  // Returns whether it continues.
  template <typename T>
  bool answer(T& turn, const PassShare& share, const std::optional<DeviceError>& failed,
              Instant finished);
  bool deliver(PromptTurn& prompt, const Outcome& outcome, Instant finished);
  bool deliver(RunTurn& turn, const Outcome& outcome, Instant finished);
  void begin_next_steps();

  // Applies `work` to a turn. If it throws, gives the turn up, erases it and returns false.
  template <typename T, typename Work>
  bool attempt(std::list<T>& turns, typename std::list<T>::iterator turn, const Work& work);
  // Drops the connection's requests without an answer: those of `round`, or all.
  void drop_requests(std::uint64_t connection_id, std::optional<std::uint32_t> round = {});
  // Refuses the request and drops the session, whose state is inconsistent or differs from the
  // device's. The caller erases the turn.
  void give_up(const Client& client, std::uint32_t round, const SessionFault& fault);
  void give_up(const Client& client, std::uint32_t round, const std::exception& failure);
  // As above for any exception; after a device failure it also probes the device.
  void give_up(const Client& client, std::uint32_t round, const std::exception_ptr& failure);
  void device_failed(const std::exception& failure);

  void count_held();
  void count_sessions();

  Decoder& decoder_;
  PassLoopOptions options_;
  std::function<Instant()> now_;
  std::shared_ptr<Metrics> metrics_;
  DeviceProbe probe_;
  SessionStore sessions_;
  CostCurve costs_;
  Delivery delivery_;
  Admission admission_;
  PassPlanner planner_;
  Turns turns_;
  PassTrees trees_;
  TokenBuckets buckets_;
  std::size_t paused_count_ = 0;
  Count count_;
};

}  // namespace edgedraft::server
