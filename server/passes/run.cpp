#include "server/passes/run.h"

#include <algorithm>

#include "shared/speculative/score.h"

namespace edgedraft {
namespace {

// Of the delay until hints come, a new sample's share.
constexpr double kNewest = 0.3;

}  // namespace

Run::Run(const wire::RunTerms& terms, std::span<const std::uint32_t> tokens,
         std::uint32_t vocabulary_count)
    : terms_(terms),
      hints_(tokens, {.nodes_max = kHintNodesMax, .vocabulary_count = vocabulary_count}) {}

void Run::take(const wire::Hints& hints, Instant now) {
  terms_.credit = std::max(terms_.credit, hints.credit);
  const bool had_hints = has_hints();
  hints_.add(hints);
  if (had_hints || !has_hints()) return;
  passes_without_hints_ = 0;
  if (!emptied_) return;
  const Duration delay = now - *emptied_;
  hint_delay_ =
      hint_delay_
          ? std::chrono::duration_cast<Duration>(kNewest * delay + (1.0 - kNewest) * *hint_delay_)
          : delay;
  emptied_.reset();
}

void Run::advance(std::span<const std::uint32_t> tokens, Instant now) {
  const bool had_hints = has_hints();
  hints_.advance(tokens);
  if (has_hints()) return;
  if (had_hints) emptied_ = now;
  ++passes_without_hints_;
}

std::vector<double> Run::probabilities() const {
  std::vector<double> probabilities;
  for (const std::uint32_t score : hints_.scores()) {
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
    calibration_.observe(static_cast<std::uint32_t>(-chosen_.score(row) * kScoreStepsPerNat + 0.5f),
                         accepted);
  }
}

}  // namespace edgedraft
