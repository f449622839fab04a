#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "server/passes/client.h"
#include "server/passes/run.h"
#include "server/proposers/speculation.h"
#include "server/sessions/pass.h"
#include "server/sessions/session_store.h"
#include "shared/base/clock.h"

namespace edgedraft {

// A request that takes part in passes.
struct Request {
  Client client;
  Session* session;
  std::uint32_t round;
  Instant posted;
  std::optional<Instant> started{};
  std::uint64_t place = 0;           // in the order of all turns
  const PassShare* share = nullptr;  // of the next pass, until its outcome is settled

  void start(Instant at) {
    if (!started) started = at;
  }
};

// Tokens to append to a session: a Prefill or a Resume.
struct PromptTurn : Request {
  std::uint32_t kept_count = 0;  // tokens written offline that became context
  bool is_new = false;           // it brought tokens: more than going on after a stream
  std::uint32_t rows_from = 0;   // the first position whose rows the client lacks
  bool waits = false;            // in line for memory, and holds none
  std::unique_ptr<Run> run{};    // that begins with its answer; null: none

  bool ready() const { return !waits; }
  bool lacks_turn() const { return !started; }
};

// Goes on as far as its client's credit reaches, one step per pass.
struct RunTurn : Request {
  std::unique_ptr<Run> run;
  Drafted drafted{};  // what the server has for its next pass
  // Tokens that the session had then, where it stands beside the hints; 0: nothing was made yet.
  std::size_t drafted_behind = 0;
  Instant begun{};          // its step, or its last pause ended
  Instant economy_until{};  // while it has no hints, it waits for some
  // No pass before then: hints are on their way that are worth more than the time.
  std::optional<Instant> held_until{};
  Duration held{};          // how long it has waited for some in this step
  bool was_paused = false;  // at the last look

  // It waits for its client, which does not read, or gives neither credit nor, under lockstep, the
  // hints for the next pass.
  bool paused() const {
    return client.reply->full() || session->target.tokens().size() >= run->credit() ||
           run->lacks_hints();
  }
  bool ready() const { return !paused() && !held_until; }
  // A run that waits for hints lacks no turn.
  bool lacks_turn() const { return !started && !was_paused && !held_until; }
  // It is paused no more: until then its client kept it waiting, and not the server.
  void go_on(Instant at) {
    was_paused = false;
    posted = at;
    begun = at;
  }
  void start(Instant at) {
    // Its client has begun to read since the last look.
    if (was_paused) go_on(at);
    Request::start(at);
  }
  // Waits for hints until economy_until if it has none.
  void hold_for_economy(Instant now) {
    // A paused run waits for its client. Held as well, it would not be ready when that reads again,
    // and due() would not tell when it is.
    const bool may_wait = !run->in_lockstep() && !run->has_hints() && !paused();
    if (may_wait && now < economy_until) held_until = economy_until;
  }
  // It waits for hints no more: until then it had no need of a turn.
  void end_hold(Instant at) {
    if (!held_until) return;
    const Instant end = std::max(posted, std::min(at, *held_until));
    held += end - posted;
    posted = end;
    held_until.reset();
  }
};

// The requests that have no answer yet, each list in the order of turns.
struct Turns {
  std::list<PromptTurn> prompts{};
  std::list<RunTurn> runs{};
  std::uint64_t next_place = 1;

  std::size_t size() const { return prompts.size() + runs.size(); }
  // Queues a request up after all others.
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
  // Calls visit(list, iterator) once for each request, in the order of turns. It may erase or
  // requeue that one, and add others.
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
  // Erases the requests for which take(turn) returns true, in the order of turns.
  template <typename Take>
  void erase_if(const Take& take) {
    for_each([&](auto& turns, auto turn) {
      if (take(*turn)) turns.erase(turn);
    });
  }
};

}  // namespace edgedraft
