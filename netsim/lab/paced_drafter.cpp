#include "netsim/lab/paced_drafter.h"

#include <algorithm>
#include <utility>

namespace edgedraft::lab {

PacedDrafter::PacedDrafter(std::unique_ptr<Drafter> drafter, const DraftingPace& pace,
                           PaceClock clock)
    : drafter_(std::move(drafter)), pace_(pace), clock_(std::move(clock)) {}

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
  // At the context's end there is no token to pace.
  if (!logits.empty()) keep(started, 1);
  return logits;
}

void PacedDrafter::keep(Instant started, std::uint32_t levels) {
  clock_.keep(started, std::max(pace_.least, pace_.step * levels));
}

}  // namespace edgedraft::lab
