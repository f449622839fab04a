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

#include "server/load/running_cost.h"
#include "server/load/start_measurement.h"
#include "server/metrics/metrics.h"
#include "server/passes/admission.h"
#include "server/passes/client.h"
#include "server/passes/delivery.h"
#include "server/passes/device_probe.h"
#include "server/passes/hint_selection.h"
#include "server/passes/pass_planner.h"
#include "server/passes/pass_trees.h"
#include "server/passes/request.h"
#include "server/proposers/speculation.h"
#include "server/sessions/pass.h"
#include "server/sessions/session_fault.h"
#include "server/sessions/session_store.h"
#include "shared/base/clock.h"
#include "shared/drafting/tap.h"

namespace edgedraft {

struct PassLoopOptions {
  SessionStore::Limits sessions{};
  // Least time of a pass over so many rows. Empty: none.
  std::function<Duration(std::uint32_t rows)> pace{};
  // Waits for the end of a paced pass.
  std::function<void(Instant)> wait_until = [](Instant end) { std::this_thread::sleep_until(end); };
  std::uint32_t pass_rows_max = kMaskRowsMax;
  // Rows of prompts in a pass that has drafts as well.
  std::uint32_t prompt_rows = 64;
  // Requests that had no pass for this long are refused: their clients went on without them. 0:
  // never.
  Duration wait_max{};
  // Drafts for runs; null: one token per pass without hints. Outlives the loop.
  Speculation* speculation = nullptr;
  Economy economy = Economy::as_asked;
  // Told why a session was dropped whose state contradicted itself.
  std::function<void(const std::string& why)> on_session_fault = [](const std::string&) {};
  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
};

// The target's work in passes, each with the drafts of all waiting sessions and parts of prompts.
// It owns the sessions and knows neither threads nor queues: Scheduler drives it by the clock,
// benchmarks by a simulated one.
//
// PassPlanner decides which requests take part in a pass, Admission which get memory for it;
// Delivery answers. A request waits only for what was there before it: one that took part in a
// pass and goes on queues up after the others, and a run pauses while its client does not read.
//
// Peers     Whatever a client asks for, in any order, costs its own session at most: a request that
//           does not fit what the session holds is refused with session_unknown, and the client
//           sends everything again.
// Errors    what fails at a request's work, such as the host's memory, costs its session as a
//           failing device does. What a call throws all the same belongs to no request:
//           give_up_all().
// Threads   one
class PassLoop {
 public:
  // Requires  1 <= prompt_rows < pass_rows_max <= kMaskRowsMax
  PassLoop(const SessionParts& parts, const PassLoopOptions& options, std::function<Instant()> now);

  // Measures what passes cost before any client is served, so that the first choices of hints are
  // right. Ends before `time_max` unless the device's first pass alone takes longer. Throws
  // DeviceError. Requires  no session yet
  struct StartReport {
    std::vector<StartSample> passes;  // paces included; none if there was too little time
    Duration took;
  };
  StartReport measure_costs(Duration time_max);

  // Takes in a request; the answer goes to client.reply, at once if it is refused, else from a
  // step. A connection has one request at a time.
  void begin(const Client& client, const TargetWork& request, Instant posted);
  // Hints for the connection's run of that round, and its credit; nothing if that is over.
  void hints(std::uint64_t connection_id, const wire::Hints& hints, Instant posted);
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
  // Runs among them that wait for their clients, as of the last step.
  std::size_t paused_count() const { return paused_count_; }
  // Whether a step would do nothing, unless memory becomes free with time (waiting_count() > 0) or
  // a run's client reads, or hints are no longer waited for (due()).
  bool idle() const;
  // When a run that waits for hints goes on without; nothing if none does.
  std::optional<Instant> due() const;
  // Prompts in line for memory.
  std::size_t waiting_count() const { return admission_.waiting_count(); }
  SessionStore::Memory memory() const { return sessions_.memory(); }
  // One pass, and one chunk of the activations that prompts still owe.
  void step();
  // A call threw this: nobody knows how far it came, so every request is refused, and its session
  // forgotten. The loop is fit for others then.
  void give_up_all(const std::exception& failure);

 private:
  // Tokens to append, and the request that waits for them.
  struct Prompt {
    PrefillRequest tokens;
    PromptTurn turn;
  };

  void begin_work(const Client& client, const wire::Prefill& request, Instant posted);
  void begin_work(const Client& client, const wire::Resume& request, Instant posted);
  // `session` is null if there is none yet.
  template <typename Message>
  static Prompt prompt_of(const Client& client, Session* session, const Message& request,
                          std::uint32_t base_count, std::uint32_t provisional_count,
                          Instant posted);
  // Whether the prompt may be begun, as far as that shows before its session is made: one that may
  // not is refused, and is to cost nobody a session. Finds its law.
  bool may_begin(Prompt& prompt, const Constraints& constraints);
  void begin_prompt(Prompt prompt, const wire::RunTerms& terms);
  // Answers a prompt of provisional tokens that the session has decided about already, on credit
  // that was given before the connection broke. False: a pass has to.
  bool answer_decided(Prompt& prompt, const wire::RunTerms& terms);
  // The run that follows a prompt's answer; null if the client gives no credit.
  std::unique_ptr<Run> run_behind(std::span<const std::uint32_t> tokens,
                                  const wire::RunTerms& terms) const;
  // Gives the runs that take part in the next pass the hints, and guesses beside them, that are
  // worth their rows, or lets them wait for more.
  void choose_hints();

  // Finds out which runs are paused, and which are not any more.
  void look_for_pauses();
  void refuse_overdue();
  // The parts of the next pass, which its turns point to.
  std::vector<PassShare> plan();
  // Runs that pass. Returns why if the device failed.
  std::optional<DeviceError> run(std::vector<PassShare>& shares);
  // Each that took part is answered, given up, or queued after the others for its next turn.
  void settle(const std::optional<DeviceError>& failed);
  // Returns whether it goes on.
  template <typename T>
  bool answer(T& turn, const PassShare& share, const std::optional<DeviceError>& failed,
              Instant finished);
  bool deliver(PromptTurn& prompt, const Outcome& outcome, Instant finished);
  bool deliver(RunTurn& turn, const Outcome& outcome, Instant finished);
  void begin_next_steps();

  // Does this for a turn of the list. If it throws, gives the turn up, erases it and returns false.
  template <typename T, typename Work>
  bool attempt(std::list<T>& turns, typename std::list<T>::iterator turn, const Work& work);
  // Drops the connection's requests, unanswered: those of that round, or all.
  void drop_requests(std::uint64_t connection_id, std::optional<std::uint32_t> round = {});
  // The client's session contradicts itself, or disagrees with the device: its request is refused,
  // and it is forgotten. The caller takes the request off turns_.
  void give_up(const Client& client, std::uint32_t round, const SessionFault& fault);
  void give_up(const Client& client, std::uint32_t round, const std::exception& failure);
  // As one of the two, and the device is looked at where it is the second.
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
  std::size_t paused_count_ = 0;
  Count count_;
};

}  // namespace edgedraft
