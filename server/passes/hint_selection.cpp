#include "server/passes/hint_selection.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace edgedraft::server {
namespace {

constexpr double kLongestForTheHintless = 1.03;
// Hint rows per pass while costs of wider passes are unknown. It bounds the extra time of a pass.
constexpr std::uint32_t kFirstHintRows = 7;

using PassSeconds = std::function<double(std::uint32_t rows)>;

// Deadline for hints worth the wait; empty if none are.
std::optional<Instant> worth_waiting(const PassTerms& pass, std::span<const RunOffer> runs,
                                     const PassSeconds& seconds_of, Instant now) {
  double tokens = pass.tokens;
  std::uint32_t gaps = 0;
  for (const RunOffer& run : runs) {
    for (const double probability : run.probabilities) tokens += probability;
    if (run.is_gap) ++gaps;
  }
  if (gaps > 0 && !pass.gap_tree) return std::nullopt;  // the server still has to measure
  const auto tree = pass.gap_tree.value_or(SpeculationBudget::Tree());
  // Tokens per second with `trees` server-drafted trees, `hinted` tokens gained and `waited`
  // seconds.
  const auto rate = [&](std::uint32_t trees, double hinted, double waited) {
    const double time = seconds_of(pass.rows + trees * (tree.rows - 1));
    return (tokens + trees * (tree.tokens - 1.0) + hinted) / (time + trees * tree.seconds + waited);
  };
  const double pass_time = seconds_of(pass.rows);
  std::optional<Instant> until;
  for (const RunOffer& run : runs) {
    if (!run.next) continue;
    // Hints that arrive during a pass are used by the next one. So two passes without a wait yield
    // one token more than one pass that waits.
    const double longest = pass_time * run.next->a_pass / (2.0 + run.next->a_pass);
    if (seconds(run.next->at - run.begun) > longest) continue;
    const double wait = seconds(run.next->at - now);
    if (run.next->tokens / tokens < wait / pass_time) continue;
    const std::uint32_t others = gaps - (run.is_gap ? 1 : 0);
    if (gaps > 0 && rate(others, run.next->tokens, wait) < rate(gaps, 0.0, 0.0)) continue;
    until = until ? std::min(*until, run.next->at) : run.next->at;
  }
  return until;
}

struct Candidate {
  double probability;
  std::size_t run;
  std::size_t place;  // index among all candidates
};

// The `most` likeliest, best first. Each run's order is kept, so a prefix always includes parents.
std::vector<Candidate> ranked(std::span<const RunOffer> runs, std::size_t most) {
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    double least = 1.0;
    for (const double probability : runs[i].probabilities) {
      least = std::min(least, probability);
      candidates.push_back({.probability = least, .run = i, .place = candidates.size()});
    }
  }
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.probability != b.probability ? a.probability > b.probability : a.place < b.place;
  };
  if (most < candidates.size()) {
    const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(most);
    std::nth_element(candidates.begin(), end, candidates.end(), better);
    candidates.erase(end, candidates.end());
  }
  std::ranges::sort(candidates, better);
  return candidates;
}

}  // namespace

Duration economy_wait(Economy economy, const HintHistory& history) {
  using namespace std::chrono_literals;
  constexpr Duration kUnknownDelay = 300ms;
  constexpr Duration kLongestWait = 1s;
  const bool asked = economy != Economy::off && history.asks_economy;
  // A client may never send hints: no wait until it has sent some or asked for it.
  const bool waits = asked || (economy == Economy::on && history.was_hinted);
  if (!waits || history.is_hintless) return Duration::zero();
  return std::min(history.delay ? *history.delay * 3 / 2 + 10ms : kUnknownDelay, kLongestWait);
}

HintSelection select_hints(PassTerms pass, std::span<const RunOffer> runs,
                           const PassSeconds& seconds_of, Instant now) {
  HintSelection selection;
  // Waiting for one client's hints gains nothing for those that send none.
  const bool all_send = std::ranges::all_of(
      runs, [](const RunOffer& run) { return run.history.was_hinted && !run.history.is_hintless; });
  const bool may_hold = pass.rows == 0 && pass.prompt_rows == 0 && all_send;
  pass.rows += static_cast<std::uint32_t>(runs.size());
  pass.tokens += static_cast<double>(runs.size());
  if (may_hold) selection.held_until = worth_waiting(pass, runs, seconds_of, now);
  if (selection.held_until) return selection;

  // Sessions without hints gain nothing from a wider pass, unless the server guesses for all.
  bool hold_short = false;
  for (const RunOffer& run : runs) {
    pass.rows += run.probe_rows;
    hold_short |= run.history.is_hintless;
  }
  hold_short &= !pass.guesses_join;
  const std::uint32_t most = pass.rows_max - pass.prompt_rows;
  std::uint32_t rows_left = most - std::min(most, pass.rows);
  if (!pass.knows_costs) rows_left = std::min(rows_left, kFirstHintRows);
  const std::vector<Candidate> candidates = ranked(runs, rows_left);
  const double seconds_without = seconds_of(pass.rows);
  const double longest = seconds_without * kLongestForTheHintless;
  double tokens = pass.tokens;
  double best_rate = tokens / seconds_without;
  std::size_t best_count = 0;
  // Cost is a step function: a row may pay only together with later ones.
  for (std::size_t count = 1; count <= candidates.size(); ++count) {
    const double time = seconds_of(pass.rows + static_cast<std::uint32_t>(count));
    if (hold_short && time > longest) break;
    tokens += candidates[count - 1].probability;
    if (tokens / time > best_rate) {
      best_rate = tokens / time;
      best_count = count;
    }
  }
  selection.taken.resize(runs.size(), 0);
  for (std::size_t i = 0; i < best_count; ++i) ++selection.taken[candidates[i].run];
  return selection;
}

}  // namespace edgedraft::server
