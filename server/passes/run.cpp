#include "server/passes/run.h"

#include <algorithm>

#include "shared/speculative/score.h"

namespace edgedraft {
namespace {

// The newest sample's share of a time that is learned.
constexpr double kNewest = 0.3;

Duration smoothed(const std::optional<Duration>& before, Duration sample) {
  if (!before) return sample;
  return std::chrono::duration_cast<Duration>(kNewest * sample + (1.0 - kNewest) * *before);
}

}  // namespace

Run::Run(const wire::RunTerms& terms, std::span<const std::uint32_t> tokens,
         std::uint32_t vocabulary_count)
    : terms_(terms),
      hints_(tokens, {.nodes_max = kHintNodesMax, .vocabulary_count = vocabulary_count}) {}

void Run::take(const wire::Hints& hints, Instant posted) {
  terms_.credit = std::max(terms_.credit, hints.credit);
  terms_.economy = hints.economy;
  const bool had_hints = has_hints();
  const std::uint64_t taken_before = hints_.counts().taken;
  const double worth_before = worth();
  hints_.add(hints);
  if (hints_.counts().taken == taken_before) return;
  passes_without_hints_ = 0;
  last_worth_ = std::max(0.0, worth() - worth_before);
  if (had_hints) {
    message_gap_ = smoothed(message_gap_, posted - last_message_);
  } else if (emptied_) {
    hint_delay_ = smoothed(hint_delay_, std::max(posted - *emptied_, Duration::zero()));
    first_worth_.add(last_worth_);
    emptied_.reset();
  }
  last_message_ = posted;
}

void Run::advance(std::span<const std::uint32_t> tokens, Instant now) {
  const bool had_hints = has_hints();
  told_ = now;
  if (chosen_.node_count() > 0) accepted_.add(static_cast<double>(tokens.size()) - 1.0);
  hints_.advance(tokens);
  if (has_hints()) return;
  if (had_hints) emptied_ = now;
  ++passes_without_hints_;
}

double Run::worth() const {
  double worth = 0.0;
  for (const double probability : probabilities()) worth += probability;
  return worth;
}

std::optional<Run::Expected> Run::next_hints(Instant now) const {
  // One that takes so many times as long as usual does not come.
  constexpr double kLate = 2.0;
  // What a step of drafting brings of what the one before it brought.
  constexpr double kNextStep = 0.8;
  const auto by = [&](Instant since, Duration usual) {
    return since + std::chrono::duration_cast<Duration>(kLate * usual);
  };
  const auto expect = [&](Instant at, double tokens) -> std::optional<Expected> {
    if (at <= now) return std::nullopt;
    return Expected{.at = at, .tokens = tokens, .a_pass = accepted_.value()};
  };
  if (has_hints() && message_gap_) {
    const auto next = expect(by(last_message_, *message_gap_), kNextStep * last_worth_);
    if (next) return next;
  }
  // A device that has nothing left to draft goes on when it hears of the last pass.
  if (!hint_delay_ || !first_worth_.known()) return std::nullopt;
  return expect(by(told_, *hint_delay_),
                has_hints() ? kNextStep * last_worth_ : first_worth_.value());
}

std::vector<double> Run::probabilities() const {
  std::vector<double> probabilities;
  for (const ScoreSteps score : hints_.scores()) {
    probabilities.push_back(calibration_.probability(score));
  }
  return probabilities;
}

const DraftTree& Run::choose(std::uint32_t count, std::uint32_t length) {
  // The pass brings a token of the target's own behind the deepest node.
  const std::uint32_t depth_max = terms_.credit > length ? terms_.credit - length - 1 : 0;
  chosen_ = hints_.best(std::min(count, kTreeNodesMax), depth_max);
  hints_seen_ = hints_.last_id();
  return chosen_;
}

void Run::observe(std::span<const std::uint32_t> path) {
  for (std::uint32_t row = 1; row <= chosen_.node_count(); ++row) {
    const bool accepted = std::ranges::find(path, row) != path.end();
    calibration_.observe(to_steps(chosen_.score(row)), accepted);
  }
}

}  // namespace edgedraft
