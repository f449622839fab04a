#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "server/passes/quota.h"
#include "server/passes/run.h"
#include "server/proposers/speculation.h"
#include "server/sessions/pass.h"
#include "server/sessions/session_store.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/drafting/tap.h"
#include "shared/protocol/message.h"

namespace edgedraft::server {

// Sink for a connection's answers. Answers after its end are dropped.
class Replies {
 public:
  virtual ~Replies() = default;
  virtual void verdict(wire::Verdict verdict) = 0;
  // Activations of a prompt.
  virtual void activations(wire::Activations chunk) = 0;
  // Activations of a run, sent after the verdict they belong to.
  virtual void run_activations(wire::Activations rows) { activations(std::move(rows)); }
  virtual void refuse(std::uint32_t round, Error error) = 0;
  // A pass ran a part of a prompt. Default: not reported.
  virtual void reading(std::uint32_t round) { (void)round; }
  // True if the client reads so slowly that its stream must pause.
  virtual bool full() const { return false; }
  // As full(), for a prompt's activations.
  virtual bool full_of_chunks() const { return false; }
};

// A request's view of its connection.
struct Client {
  std::uint64_t connection_id;
  std::shared_ptr<Replies> reply;
  wire::SessionId session;
  std::string identity;                   // the signed-in client's; only that identity may resume
                                          // the session
  Tap* tap;                               // null if the drafter needs none
  wire::Codec codec = wire::Codec::gzip;  // for a prompt's activations
  bool newest_row = false;                // verdicts have no rows of older positions
  Quota quota{};                          // of the identity, as of this request
};

using TargetWork = std::variant<wire::Prefill, wire::Resume>;

inline std::uint32_t round_of(const TargetWork& request) {
  return std::visit([](const auto& r) { return r.round; }, request);
}

// A request that takes part in passes.
struct Request {
  Client client;
  Session* session;
  std::uint32_t round;
  Instant posted;
  std::optional<Instant> started{};
  std::uint64_t place = 0;           // turn order across all lists
  const PassShare* share = nullptr;  // in the next pass, until its outcome is settled

  void start(Instant at) {
    if (!started) started = at;
  }
};

// Tokens to append to a session: a Prefill or a Resume.
struct PromptTurn : Request {
  std::uint32_t kept_count = 0;  // offline tokens that became context
  bool is_new = false;           // brings tokens, unlike the continuation of a stream
  std::uint32_t rows_from = 0;   // first position whose activations the client lacks
  bool waits = false;            // queued for memory, and holds none
  std::unique_ptr<Run> run{};    // starts with its answer; null: none
  Instant reported{};            // last report of a part that ran

  bool ready() const { return !waits; }
  bool lacks_turn() const { return !started; }
};

// A run: continues up to its client's credit, one step per pass.
struct RunTurn : Request {
  std::unique_ptr<Run> run;
  Drafted drafted{};  // server's draft for the next pass
  // Session length when a draft that joins hints was made; 0: none made yet.
  std::size_t drafted_behind = 0;
  Instant begun{};          // start of the step, or end of its last pause
  Instant economy_until{};  // deadline of its wait for hints
  // Earliest start of a pass: hints worth the wait are in flight.
  std::optional<Instant> held_until{};
  Duration held{};          // time waited for hints in this step
  bool was_paused = false;  // as of the last check

  // Probes that ran in the last pass; there may have been no memory for them.
  std::uint32_t probes_run() const {
    const bool ran = session->target.probe_answer().id == drafted.probes.id;
    return ran ? drafted.probes.rows.node_count() : 0;
  }
  // True while it waits for its client to read, to give credit or, under lockstep, to send the next
  // hints.
  bool paused() const {
    return client.reply->full() || session->target.tokens().size() >= run->credit() ||
           run->lacks_hints();
  }
  bool ready() const { return !paused() && !held_until; }
  // A run that waits for hints needs no turn.
  bool lacks_turn() const { return !started && !was_paused && !held_until; }
  // Ends a pause; until then the client kept it waiting, not the server.
  void go_on(Instant at) {
    was_paused = false;
    posted = at;
    begun = at;
  }
  void start(Instant at) {
    // Its client resumed reading since the last check.
    if (was_paused) go_on(at);
    Request::start(at);
  }
  // Waits for hints until economy_until if it has none.
  void hold_for_economy(Instant now) {
    // A paused run must not be held too. It would not be ready when its client reads again, and
    // due() would not report the time.
    const bool may_wait = !run->in_lockstep() && !run->has_hints() && !paused();
    if (may_wait && now < economy_until) held_until = economy_until;
  }
  // Ends the wait for hints; until then it needed no turn.
  void end_hold(Instant at) {
    if (!held_until) return;
    const Instant end = std::max(posted, std::min(at, *held_until));
    held += end - posted;
    posted = end;
    held_until.reset();
  }
};

// Unanswered requests, each list in turn order.
struct Turns {
  std::list<PromptTurn> prompts{};
  std::list<RunTurn> runs{};
  std::uint64_t next_place = 1;

  std::size_t size() const { return prompts.size() + runs.size(); }
  // Queues a request after all others.
  PromptTurn& add(PromptTurn prompt) {
    prompt.place = next_place++;
    return prompts.emplace_back(std::move(prompt));
  }
  RunTurn& add(RunTurn run) {
    run.place = next_place++;
    return runs.emplace_back(std::move(run));
  }
  template <typename T>
  void requeue(std::list<T>& turns, typename std::list<T>::iterator turn) {
    turn->place = next_place++;
    turns.splice(turns.end(), turns, turn);
  }
  // Calls visit(list, iterator) once per request in turn order. It may erase or requeue that one,
  // and add others.
  template <typename Visit>
  void for_each(const Visit& visit) {
    auto prompt = prompts.begin();
    auto run = runs.begin();
    const std::uint64_t end = next_place;
    const auto place = [&](const auto& turns, auto turn) {
      return turn == turns.end() ? end : turn->place;
    };
    while (std::min(place(prompts, prompt), place(runs, run)) < end) {
      if (place(prompts, prompt) < place(runs, run)) {
        visit(prompts, prompt++);
      } else {
        visit(runs, run++);
      }
    }
  }
  template <typename Predicate>
  bool any_of(const Predicate& predicate) const {
    return std::ranges::any_of(prompts, predicate) || std::ranges::any_of(runs, predicate);
  }
  // Erases the requests for which take(turn) returns true, in turn order.
  template <typename Take>
  void erase_if(const Take& take) {
    for_each([&](auto& turns, auto turn) {
      if (take(*turn)) turns.erase(turn);
    });
  }
};

}  // namespace edgedraft::server
