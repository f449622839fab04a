#include "server/passes/pass_trees.h"

#include <algorithm>

#include "server/sessions/session_fault.h"

namespace edgedraft::server {
namespace {

std::uint32_t length_of(const RunTurn& turn) {
  return static_cast<std::uint32_t>(turn.session->target.tokens().size());
}

}  // namespace

void PassTrees::begin_step(RunTurn& turn) {
  EDGEDRAFT_SESSION_CHECK(turn.session->target.begin(DraftTree()));
  // A pass for the root alone must not report the previous tree.
  turn.drafted = {};
  turn.drafted_behind = 0;
  turn.run->choose(0, length_of(turn));
  turn.begun = parts_.now();
  turn.held = {};
  turn.economy_until = turn.begun + economy_wait(parts_.economy, turn.run->history());
}

void PassTrees::guess_beside_hints(RunTurn& turn) {
  if (!joins_hints() || turn.drafted_behind == length_of(turn)) return;
  turn.session->target.abandon();
  turn.drafted = own_draft(turn, true);
  turn.drafted_behind = length_of(turn);
  turn.run->propose(turn.drafted.tree);
  EDGEDRAFT_SESSION_CHECK(turn.session->target.begin(DraftTree()));
}

RunOffer PassTrees::offer(const RunTurn& turn, Instant now) const {
  const bool is_gap = parts_.speculation != nullptr && !joins_hints() && !turn.run->has_hints() &&
                      parts_.speculation->drafts_with(turn.session->proposer);
  return {.probabilities = turn.run->probabilities(),
          .history = turn.run->history(),
          .probe_rows = turn.drafted.probes.rows.node_count(),
          .is_gap = is_gap,
          .begun = turn.begun,
          .next = turn.run->next_hints(now)};
}

std::optional<SpeculationBudget::Tree> PassTrees::gap_tree(const RunTurn& turn) const {
  if (parts_.speculation == nullptr) return std::nullopt;
  return parts_.speculation->expected_tree(drafted_sessions(turn), parts_.costs);
}

void PassTrees::choose(RunTurn& turn, std::uint32_t count) {
  TargetSession& target = turn.session->target;
  Run& run = *turn.run;
  target.abandon();
  run.choose(count, length_of(turn));
  if (!joins_hints()) {
    turn.drafted = {};
    if (run.chosen().empty()) {
      turn.drafted = own_draft(turn, false);
      run.propose(turn.drafted.tree);
      run.choose(turn.drafted.tree.node_count(), length_of(turn));
    }
  }
  if (target.begin(run.chosen(), turn.drafted.probes)) return;
  // A drafter's vocabulary may be padded beyond the target's.
  run.propose({});
  run.choose(0, length_of(turn));
  EDGEDRAFT_SESSION_CHECK(target.begin(DraftTree()));
}

void PassTrees::choose_complete(RunTurn& turn) {
  turn.session->target.abandon();
  EDGEDRAFT_SESSION_CHECK(turn.session->target.begin(turn.run->choose_complete(length_of(turn))));
}

std::uint32_t PassTrees::drafted_sessions(const RunTurn& turn) const {
  const auto others = std::ranges::count_if(parts_.runs, [&](const RunTurn& other) {
    return !other.run->in_lockstep() && other.session != turn.session && !other.paused();
  });
  return static_cast<std::uint32_t>(others) + 1;
}

Drafted PassTrees::own_draft(RunTurn& turn, bool weighed_by_caller) {
  if (parts_.speculation == nullptr) return {};
  Session& session = *turn.session;
  const auto make_room = [&] {
    if (parts_.sessions.give_up_proposer(session)) return true;
    parts_.metrics->steps_without_drafter.add();
    return false;
  };
  return parts_.speculation->draft(session.target, session.proposer,
                                   {.tokens_left = turn.run->credit() - length_of(turn),
                                    .sessions = drafted_sessions(turn),
                                    .costs = parts_.costs,
                                    .rows_max = parts_.rows_max,
                                    .weighed_by_caller = weighed_by_caller,
                                    .make_room = make_room});
}

}  // namespace edgedraft::server
