#include "server/passes/pass_loop.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

// Runs and their hints.
namespace edgedraft::server {

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
    const HintCounts& counts = run.counts();
    const auto count = [&](HintFate fate, std::uint64_t nodes) {
      metrics_->hints[static_cast<std::size_t>(fate)].add(nodes);
    };
    count(HintFate::taken, counts.taken - before.taken);
    count(HintFate::passed, counts.passed - before.passed);
    count(HintFate::contradicted, counts.contradicted - before.contradicted);
    count(HintFate::unknown, counts.unknown - before.unknown);
    count(HintFate::evicted, counts.evicted - before.evicted);
  };
  const auto prompt = std::ranges::find_if(turns_.prompts, is_meant);
  const auto turn = std::ranges::find_if(turns_.runs, is_meant);
  if (prompt != turns_.prompts.end()) {
    if (!prompt->run || !attempt(turns_.prompts, prompt, [&] { take(*prompt->run); })) return;
  } else if (turn != turns_.runs.end()) {
    const bool was_paused = turn->paused();
    const bool taken = attempt(turns_.runs, turn, [&] {
      take(*turn->run);
      if (hints.complete && turn->run->in_lockstep()) trees_.choose_complete(*turn);
    });
    if (!taken) return;
    // Credit may arrive while the pass that used it up is still running.
    if (was_paused && !turn->paused()) turn->go_on(std::max(posted, turn->posted));
  } else {
    return;
  }
  // Runs on hold check again.
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
  trees_.begin_step(*run);
  run->posted = now;
  run->started.reset();
  turns_.add(*std::move(run));
  return true;
}

void PassLoop::begin_next_steps() {
  for (auto next = turns_.runs.begin(); next != turns_.runs.end();) {
    const auto turn = next++;
    if (turn->session->target.busy()) continue;
    if (!attempt(turns_.runs, turn, [&] { trees_.begin_step(*turn); })) continue;
    turn->posted = now_();
    turn->started.reset();
  }
}

void PassLoop::choose_hints() {
  const Instant now = now_();
  PassTerms pass{.rows_max = options_.pass_rows_max,
                 .guesses_join = trees_.joins_hints(),
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
    return !attempt(turns_.runs, turn, [&] { trees_.guess_beside_hints(*turn); });
  });
  if (runs.empty()) return;
  std::vector<RunOffer> offers;
  for (const auto turn : runs) offers.push_back(trees_.offer(*turn, now));
  pass.gap_tree = trees_.gap_tree(*runs.front());
  const HintSelection selection = select_hints(
      pass, offers, [&](std::uint32_t rows) { return pass_seconds(costs_, rows); }, now);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (selection.held_until) {
      runs[i]->held_until = selection.held_until;
    } else {
      attempt(turns_.runs, runs[i], [&] { trees_.choose(*runs[i], selection.taken[i]); });
    }
  }
}

}  // namespace edgedraft::server
