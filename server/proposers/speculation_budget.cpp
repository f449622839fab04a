#include "server/proposers/speculation_budget.h"

namespace edgedraft::server {
namespace {

// Steps between two trials of a size that is not the best.
constexpr std::uint32_t kTryEvery = 64;
// Maximum share of time for trial trees if no tree pays.
constexpr double kTryShare = 0.02;
// Full trees observed before any decision.
constexpr std::uint32_t kFirstTrees = 8;

}  // namespace

void SpeculationBudget::observe_drafting(std::uint32_t rows, Duration time) {
  drafting_[size_of(rows)].add(seconds(time));
  spent_ += seconds(time);
  if (trying_) tried_ += seconds(time);
  trying_ = false;
}

void SpeculationBudget::observe_draft(std::uint32_t rows, std::uint32_t tokens) {
  ++trees_;
  tokens_[size_of(rows)].add(tokens);
}

std::optional<SpeculationBudget::Tree> SpeculationBudget::expected_tree(
    std::uint32_t sessions, const CostCurve& costs) const {
  if (trees_ < kFirstTrees || !costs.known()) return std::nullopt;
  return best_tree(sessions, costs);
}

SpeculationBudget::Tree SpeculationBudget::best_tree(std::uint32_t sessions,
                                                     const CostCurve& costs) const {
  const double n = std::max(sessions, 1u);
  Tree best;
  double best_rate = n / costs.seconds(n);
  const std::size_t largest = size_of(rows_max_);
  for (std::size_t size = 1; size <= largest; ++size) {
    // An untried size is estimated by the next larger one. Drafting takes the same time and gives
    // more than half of its tokens, since the likelier half of the nodes is kept.
    const std::size_t known = tokens_[size].known() ? size : std::min(size + 1, largest);
    if (!tokens_[known].known() || !drafting_[known].known()) continue;
    const double tokens =
        known == size ? tokens_[size].value() : 1.0 + 0.6 * (tokens_[known].value() - 1.0);
    const double rows = std::min<double>(rows_max_, 1u << size);
    const double rate = n * tokens / (costs.seconds(n * rows) + n * drafting_[known].value());
    if (rate > best_rate) {
      best_rate = rate;
      best = {.rows = static_cast<std::uint32_t>(rows),
              .tokens = tokens,
              .seconds = drafting_[known].value()};
    }
  }
  return best;
}

std::uint32_t SpeculationBudget::next_rows(std::uint32_t sessions, const CostCurve& costs) {
  ++step_;
  trying_ = false;
  if (trees_ < kFirstTrees) return rows_max_;
  const std::uint32_t best = costs.known() ? best_tree(sessions, costs).rows : rows_max_;
  if (step_ % kTryEvery != 0) return best;
  // Alternates between smaller and larger sizes.
  if (best == 1) {
    trying_ = tried_ <= kTryShare * spent_;
    return trying_ ? std::min(rows_max_, 1u << (1 + step_ / kTryEvery % size_of(rows_max_))) : 1;
  }
  return step_ / kTryEvery % 2 == 0 ? 1 : std::min(rows_max_, 2 * best);
}

}  // namespace edgedraft::server
