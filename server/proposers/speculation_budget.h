#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "shared/base/clock.h"
#include "shared/forecast/cost_curve.h"

namespace edgedraft::server {

// Chooses the tree size with the most tokens per second on one device that drafts and verifies in
// turns.
//
// n sessions with trees of r rows, d(r) seconds of drafting each, get n * tau(r) tokens in c(n * r)
// + n * d(r). The r that maximizes this ratio is taken; 1 row means no tree and needs no drafting.
// c are the measured costs of passes; tau and d are running means by size. Unknown sizes are tried:
// large trees first, and periodically a single row, or a tree if none is in use (at most 2 % of the
// time).
class SpeculationBudget {
 public:
  // `rows_max`: of the largest tree, root included.
  explicit SpeculationBudget(std::uint32_t rows_max) : rows_max_(rows_max) {}

  void observe_pass(Duration time) { spent_ += seconds(time); }
  // Drafting time of a tree of `rows` rows, root included.
  void observe_drafting(std::uint32_t rows, Duration time);
  // Its gain in tokens, the target's own included.
  void observe_draft(std::uint32_t rows, std::uint32_t tokens);
  // Rows of the next tree, 1..rows_max, at this number of streaming sessions.
  std::uint32_t next_rows(std::uint32_t sessions, const CostCurve& costs);

  struct Tree {
    std::uint32_t rows = 1;  // root included
    double tokens = 1.0;     // gained, the target's own included
    double seconds = 0.0;    // time spent drafting
  };
  // The best known tree, a root alone if no tree pays; empty until enough were seen.
  std::optional<Tree> expected_tree(std::uint32_t sessions, const CostCurve& costs) const;

 private:
  std::size_t size_of(std::uint32_t rows) const {
    const auto size = static_cast<std::size_t>(std::bit_width(std::max(rows, 1u) - 1));
    return std::min(size, tokens_.size() - 1);
  }
  // Requires  costs.known()
  Tree best_tree(std::uint32_t sessions, const CostCurve& costs) const;

  std::uint32_t rows_max_;
  // By size, root included: 1 row, 2, up to 4, up to 8, ..., up to 256.
  std::array<RunningMean, 9> tokens_{};
  std::array<RunningMean, 9> drafting_{};
  std::uint32_t step_ = 0;
  std::uint32_t trees_ = 0;  // observed trees
  // Seconds of passes and drafting, and those spent on trial trees.
  double spent_ = 0.0;
  double tried_ = 0.0;
  bool trying_ = false;
};

}  // namespace edgedraft::server
