#include "server/passes/pass_loop.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <variant>

// Runs: requests that go on by themselves, and the hints for them.
namespace edgedraft {

void PassLoop::hints(std::uint64_t connection_id, const wire::Hints& hints, Instant posted) {
  for (Request& request : turns_) {
    if (request.client.connection_id != connection_id || request.round != hints.round) continue;
    Run* run = nullptr;
    if (auto* prompt = std::get_if<PromptRequest>(&request.work)) run = prompt->run.get();
    if (RunRequest* of = request.run()) run = of->run.get();
    if (run == nullptr) return;
    const HintCounts before = run->counts();
    const bool was_paused = request.paused();
    try {
      run->take(hints, posted);
      RunRequest* const of = request.run();
      const bool begins_pass = hints.complete && of != nullptr && run->in_lockstep();
      if (begins_pass &&
          !choose_complete({.request = &request, .session = request.session, .of = of})) {
        drop_requests(connection_id);
        return;
      }
    } catch (const std::exception&) {
      const Client client = request.client;
      drop_requests(connection_id);
      give_up(client, hints.round, std::current_exception());
      return;
    }
    // They may have come while the pass that used the credit up was still under way.
    if (was_paused && !request.paused()) request.go_on(std::max(posted, request.posted));
    count_hints(before, run->counts());
    // What waited for some looks again.
    for (Request& waiting : turns_) waiting.end_hold(posted);
    return;
  }
}

std::optional<Instant> PassLoop::due() const {
  std::optional<Instant> due;
  for (const Request& request : turns_) {
    const RunRequest* const of = request.run();
    if (of == nullptr || !of->held_until || request.paused()) continue;
    due = due ? std::min(*due, *of->held_until) : of->held_until;
  }
  return due;
}

std::unique_ptr<Run> PassLoop::run_behind(std::span<const std::uint32_t> tokens,
                                          const wire::RunTerms& terms) const {
  if (terms.credit == 0) return nullptr;
  return std::make_unique<Run>(terms, tokens, decoder_.config().vocabulary_count);
}

bool PassLoop::answer_decided(const Job& job, Session& session, const wire::RunTerms& terms,
                              Prompt& prompt) {
  std::vector<std::uint32_t> rest;
  const auto outcome = session.target.decided(prompt.tokens, rest);
  if (!outcome) return false;
  const Instant now = now_();
  prompt.as.run = run_behind(session.target.tokens().first(prompt.tokens.base_count), terms);
  Request request{.client = job.client,
                  .session = &session,
                  .round = prompt.round,
                  .posted = job.posted,
                  .work = std::move(prompt.as),
                  .started = now};
  if (!delivery_.answer(request, *outcome, now)) return true;
  request.run()->run->expect(rest);
  begin_step(session, *request.run());
  request.posted = now;
  request.started.reset();
  turns_.push_back(std::move(request));
  return true;
}

void PassLoop::begin_step(Session& session, RunRequest& request) {
  EDGEDRAFT_SESSION_CHECK(session.target.begin(DraftTree()));
  // A pass that has the root alone must not tell of the tree before it.
  request.drafted = {};
  request.drafted_behind = 0;
  request.run->choose(0, static_cast<std::uint32_t>(session.target.tokens().size()));
  request.begun = now_();
  request.held = {};
  request.economy_until = request.begun + economy_wait(options_.economy, request.run->history());
}

bool PassLoop::drafts_for_gap(const Run& run, const Session& session) const {
  return options_.speculation != nullptr && !joins_hints() && !run.has_hints() &&
         options_.speculation->drafts_with(session.proposer);
}

void PassLoop::choose_hints() {
  const Instant now = now_();
  PassTerms pass{.rows_max = options_.pass_rows_max,
                 .guesses_join = joins_hints(),
                 .knows_costs = costs_.knows_counts()};
  std::vector<RunTurn> runs;
  for (Request& request : turns_) {
    RunRequest* const of = request.run();
    if (of != nullptr) {
      request.end_hold(now);
      // A paused run waits for its client. Held as well, it would not be ready when that reads
      // again, and nobody would look when it is due.
      const bool may_wait = !of->run->in_lockstep() && !of->run->has_hints() && !request.paused();
      if (may_wait && now < of->economy_until) of->held_until = of->economy_until;
    }
    if (!request.ready()) continue;
    if (of != nullptr && !of->run->in_lockstep()) {
      runs.push_back({.request = &request, .session = request.session, .of = of});
    } else if (request.is_prompt()) {
      pass.prompt_rows = options_.prompt_rows;
    } else {
      pass.rows += request.session->target.pending_rows();
      pass.tokens += 1.0;
    }
  }
  if (runs.empty()) return;
  std::vector<const Session*> given_up;
  std::erase_if(runs, [&](const RunTurn& turn) {
    if (guess_beside_hints(turn)) return false;
    given_up.push_back(turn.session);
    return true;
  });
  std::vector<RunOffer> offers;
  for (const auto& [request, session, of] : runs) {
    offers.push_back({.probabilities = of->run->probabilities(),
                      .history = of->run->history(),
                      .probe_rows = of->drafted.probes.rows.node_count(),
                      .is_gap = drafts_for_gap(*of->run, *session),
                      .begun = of->begun,
                      .next = of->run->next_hints(now)});
  }
  if (std::ranges::any_of(offers, &RunOffer::is_gap)) {
    pass.gap_tree = options_.speculation->expected_tree(drafted_sessions(*runs.front().session));
  }
  const HintSelection selection = select_hints(
      pass, offers, [&](std::uint32_t rows) { return pass_seconds(costs_, rows); }, now);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (selection.held_until) {
      runs[i].of->held_until = selection.held_until;
    } else if (!choose_hints(runs[i], selection.taken[i])) {
      given_up.push_back(runs[i].session);
    }
  }
  std::erase_if(turns_, [&](const Request& request) {
    return std::ranges::find(given_up, request.session) != given_up.end();
  });
}

bool PassLoop::guess_beside_hints(const RunTurn& turn) {
  RunRequest& of = *turn.of;
  const std::size_t behind = turn.session->target.tokens().size();
  if (!joins_hints() || of.drafted_behind == behind) return true;
  return with_session(turn, [&](TargetSession& target) {
    of.drafted =
        own_draft(*turn.session, of.run->credit() - static_cast<std::uint32_t>(behind), true);
    of.drafted_behind = behind;
    of.run->propose(of.drafted.tree);
    EDGEDRAFT_SESSION_CHECK(target.begin(DraftTree()));
  });
}

bool PassLoop::choose_hints(const RunTurn& turn, std::uint32_t count) {
  RunRequest& of = *turn.of;
  Run& run = *of.run;
  return with_session(turn, [&](TargetSession& target) {
    const auto length = static_cast<std::uint32_t>(target.tokens().size());
    run.choose(count, length);
    if (!joins_hints()) {
      of.drafted = {};
      if (run.chosen().empty()) {
        of.drafted = own_draft(*turn.session, run.credit() - length, false);
        run.propose(of.drafted.tree);
        run.choose(of.drafted.tree.node_count(), length);
      }
    }
    if (target.begin(run.chosen(), of.drafted.probes)) return;
    // A drafter's vocabulary may be padded beyond the target's.
    run.propose({});
    run.choose(0, length);
    EDGEDRAFT_SESSION_CHECK(target.begin(DraftTree()));
  });
}

bool PassLoop::choose_complete(const RunTurn& turn) {
  Run& run = *turn.of->run;
  return with_session(turn, [&](TargetSession& target) {
    const auto length = static_cast<std::uint32_t>(target.tokens().size());
    EDGEDRAFT_SESSION_CHECK(target.begin(run.choose_complete(length)));
  });
}

bool PassLoop::with_session(const RunTurn& turn, const std::function<void(TargetSession&)>& work) {
  TargetSession& target = turn.session->target;
  try {
    target.abandon();
    work(target);
    return true;
  } catch (const std::exception&) {
    give_up(turn.request->client, turn.request->round, std::current_exception());
    return false;
  }
}

void PassLoop::count_hints(const HintCounts& before, const HintCounts& now) {
  const auto count = [&](HintFate fate, std::uint64_t nodes) {
    metrics_->hints[static_cast<std::size_t>(fate)].add(nodes);
  };
  count(HintFate::taken, now.taken - before.taken);
  count(HintFate::passed, now.passed - before.passed);
  count(HintFate::contradicted, now.contradicted - before.contradicted);
  count(HintFate::unknown, now.unknown - before.unknown);
  count(HintFate::evicted, now.evicted - before.evicted);
}

}  // namespace edgedraft
