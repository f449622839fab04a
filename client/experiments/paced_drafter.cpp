#include "client/experiments/paced_drafter.h"

#include <algorithm>
#include <utility>

namespace edgedraft {

PacedDrafter::PacedDrafter(std::unique_ptr<Drafter> drafter, const DraftingPace& pace,
                           PaceClock clock)
    : drafter_(std::move(drafter)), pace_(pace), clock_(std::move(clock)) {}

std::optional<PacedStep> PacedDrafter::take_step() {
  return std::exchange(step_, std::nullopt);
}

bool PacedDrafter::grow(TreeGrowth& growth, const GrowthBudget& budget) {
  const Instant started = clock_.now();
  const bool done = drafter_->grow(growth, budget);
  const bool whole = budget.rows == GrowthBudget{}.rows;
  keep(started, whole ? growth.shape().depth : 1);
  return done;
}

std::span<const float> PacedDrafter::next_logits() {
  const Instant started = clock_.now();
  const std::span<const float> logits = drafter_->next_logits();
  // Where the context ends there is no token to take its time.
  if (!logits.empty()) keep(started, 1);
  return logits;
}

void PacedDrafter::keep(Instant started, std::uint32_t levels) {
  const Duration pace = std::max(pace_.least, pace_.step * levels);
  step_ = {.pace = pace, .computed = clock_.now() - started};
  if (step_->computed > pace) ++late_count_;
  clock_.wait_until(started + pace);
}

}  // namespace edgedraft
