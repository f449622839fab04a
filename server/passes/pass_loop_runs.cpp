#include "server/passes/pass_loop.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <variant>

// Runs: requests that go on by themselves, and the hints for them.
namespace edgedraft {

template <typename T, typename Work>
bool PassLoop::attempt(std::list<T>& turns, typename std::list<T>::iterator turn,
                       const Work& work) {
  try {
    work();
    return true;
  } catch (const std::exception&) {
    admission_.leave(*turn);
    give_up(turn->client, turn->round, std::current_exception());
    turns.erase(turn);
    return false;
  }
}

void PassLoop::hints(std::uint64_t connection_id, const wire::Hints& hints, Instant posted) {
  const auto is_meant = [&](const Request& turn) {
    return turn.client.connection_id == connection_id && turn.round == hints.round;
  };
  const auto take = [&](Run& run) {
    const HintCounts before = run.counts();
    run.take(hints, posted);
    count_hints(before, run.counts());
  };
  const auto prompt = std::ranges::find_if(turns_.prompts, is_meant);
  const auto turn = std::ranges::find_if(turns_.runs, is_meant);
  if (prompt != turns_.prompts.end()) {
    if (!prompt->run || !attempt(turns_.prompts, prompt, [&] { take(*prompt->run); })) return;
  } else if (turn != turns_.runs.end()) {
    const bool was_paused = turn->paused();
    const bool taken = attempt(turns_.runs, turn, [&] {
      take(*turn->run);
      if (hints.complete && turn->run->in_lockstep()) choose_complete(*turn);
    });
    if (!taken) return;
    // They may have come while the pass that used the credit up was still under way.
    if (was_paused && !turn->paused()) turn->go_on(std::max(posted, turn->posted));
  } else {
    return;
  }
  // Runs that waited for some look again.
  for (RunTurn& waiting : turns_.runs) waiting.end_hold(posted);
}

std::optional<Instant> PassLoop::due() const {
  std::optional<Instant> due;
  for (const RunTurn& turn : turns_.runs) {
    if (!turn.held_until || turn.paused()) continue;
    due = std::min(due.value_or(Instant::max()), *turn.held_until);
  }
  return due;
}

std::unique_ptr<Run> PassLoop::run_behind(std::span<const std::uint32_t> tokens,
                                          const wire::RunTerms& terms) const {
  if (terms.credit == 0) return nullptr;
  return std::make_unique<Run>(terms, tokens, decoder_.config().vocabulary_count);
}

bool PassLoop::answer_decided(Prompt& prompt, const wire::RunTerms& terms) {
  auto& [tokens, turn] = prompt;
  const TargetSession& target = turn.session->target;
  std::vector<std::uint32_t> rest;
  const auto outcome = turn.session->target.decided(tokens, rest);
  if (!outcome) return false;
  const Instant now = now_();
  turn.run = run_behind(target.tokens().first(tokens.base_count), terms);
  turn.started = now;
  auto run = delivery_.answer(turn, *outcome, now);
  if (!run) return true;
  run->run->expect(rest);
  begin_step(*run);
  run->posted = now;
  run->started.reset();
  turns_.add(*std::move(run));
  return true;
}

void PassLoop::begin_step(RunTurn& turn) {
  TargetSession& target = turn.session->target;
  EDGEDRAFT_SESSION_CHECK(target.begin(DraftTree()));
  // A pass that has the root alone must not tell of the tree before it.
  turn.drafted = {};
  turn.drafted_behind = 0;
  turn.run->choose(0, static_cast<std::uint32_t>(target.tokens().size()));
  turn.begun = now_();
  turn.held = {};
  turn.economy_until = turn.begun + economy_wait(options_.economy, turn.run->history());
}

void PassLoop::begin_next_steps() {
  for (auto next = turns_.runs.begin(); next != turns_.runs.end();) {
    const auto turn = next++;
    if (turn->session->target.busy()) continue;
    if (!attempt(turns_.runs, turn, [&] { begin_step(*turn); })) continue;
    turn->posted = now_();
    turn->started.reset();
  }
}

bool PassLoop::drafts_for_gap(const RunTurn& turn) const {
  return options_.speculation != nullptr && !joins_hints() && !turn.run->has_hints() &&
         options_.speculation->drafts_with(turn.session->proposer);
}

void PassLoop::choose_hints() {
  const Instant now = now_();
  PassTerms pass{.rows_max = options_.pass_rows_max,
                 .guesses_join = joins_hints(),
                 .knows_costs = costs_.knows_counts()};
  if (std::ranges::any_of(turns_.prompts, &PromptTurn::ready)) {
    pass.prompt_rows = options_.prompt_rows;
  }
  std::vector<std::list<RunTurn>::iterator> runs;
  for (auto turn = turns_.runs.begin(); turn != turns_.runs.end(); ++turn) {
    turn->end_hold(now);
    turn->hold_for_economy(now);
    if (!turn->ready()) continue;
    if (turn->run->in_lockstep()) {
      pass.rows += turn->session->target.pending_rows();
      pass.tokens += 1.0;
    } else {
      runs.push_back(turn);
    }
  }
  std::erase_if(runs, [&](auto turn) {
    return !attempt(turns_.runs, turn, [&] { guess_beside_hints(*turn); });
  });
  if (runs.empty()) return;
  std::vector<RunOffer> offers;
  for (const auto turn : runs) {
    offers.push_back({.probabilities = turn->run->probabilities(),
                      .history = turn->run->history(),
                      .probe_rows = turn->drafted.probes.rows.node_count(),
                      .is_gap = drafts_for_gap(*turn),
                      .begun = turn->begun,
                      .next = turn->run->next_hints(now)});
  }
  if (std::ranges::any_of(offers, &RunOffer::is_gap)) {
    pass.gap_tree = options_.speculation->expected_tree(drafted_sessions(*runs.front()->session));
  }
  const HintSelection selection = select_hints(
      pass, offers, [&](std::uint32_t rows) { return pass_seconds(costs_, rows); }, now);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (selection.held_until) {
      runs[i]->held_until = selection.held_until;
    } else {
      attempt(turns_.runs, runs[i], [&] { choose_hints(*runs[i], selection.taken[i]); });
    }
  }
}

void PassLoop::guess_beside_hints(RunTurn& turn) {
  TargetSession& target = turn.session->target;
  const std::size_t behind = target.tokens().size();
  if (!joins_hints() || turn.drafted_behind == behind) return;
  target.abandon();
  turn.drafted =
      own_draft(*turn.session, turn.run->credit() - static_cast<std::uint32_t>(behind), true);
  turn.drafted_behind = behind;
  turn.run->propose(turn.drafted.tree);
  EDGEDRAFT_SESSION_CHECK(target.begin(DraftTree()));
}

void PassLoop::choose_hints(RunTurn& turn, std::uint32_t count) {
  TargetSession& target = turn.session->target;
  Run& run = *turn.run;
  target.abandon();
  const auto length = static_cast<std::uint32_t>(target.tokens().size());
  run.choose(count, length);
  if (!joins_hints()) {
    turn.drafted = {};
    if (run.chosen().empty()) {
      turn.drafted = own_draft(*turn.session, run.credit() - length, false);
      run.propose(turn.drafted.tree);
      run.choose(turn.drafted.tree.node_count(), length);
    }
  }
  if (target.begin(run.chosen(), turn.drafted.probes)) return;
  // A drafter's vocabulary may be padded beyond the target's.
  run.propose({});
  run.choose(0, length);
  EDGEDRAFT_SESSION_CHECK(target.begin(DraftTree()));
}

void PassLoop::choose_complete(RunTurn& turn) {
  TargetSession& target = turn.session->target;
  target.abandon();
  const auto length = static_cast<std::uint32_t>(target.tokens().size());
  EDGEDRAFT_SESSION_CHECK(target.begin(turn.run->choose_complete(length)));
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
