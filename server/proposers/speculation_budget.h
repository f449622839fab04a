#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "server/load/running_cost.h"
#include "shared/base/clock.h"

namespace edgedraft {

// How many rows a tree of the server's own should have to get the most tokens a second out of its
// one device, which drafts and verifies in turns.
//
// n sessions with trees of r rows, d(r) seconds of drafting each, get n * tau(r) tokens in
// a + b * n * r + n * d(r). The r that makes this ratio largest is taken; 1 row is no tree and
// takes no drafting. a and b are fitted to recent passes; tau and d are running means by size. What
// is not known is tried: large trees first, and now and then a single row, or a tree where there is
// none (for at most 2 % of the time).
class SpeculationBudget {
 public:
  // `rows_max`: of the largest tree, root included.
  explicit SpeculationBudget(std::uint32_t rows_max) : rows_max_(rows_max) {}

  void observe_pass(std::uint32_t rows, Duration time);
  // A tree of `rows` rows, root included, took so long to draft.
  void observe_drafting(std::uint32_t rows, Duration time);
  // And brought so many tokens, the target's own included.
  void observe_draft(std::uint32_t rows, std::uint32_t tokens);
  // Rows of the next tree, 1..rows_max, while so many sessions stream.
  std::uint32_t next_rows(std::uint32_t sessions);

  struct Tree {
    std::uint32_t rows = 1;  // root included
    double tokens = 1.0;     // that it brings, the target's own included
    double seconds = 0.0;    // of drafting
  };
  // The tree that is thought best then, a root alone where none pays; nothing until enough of them
  // were seen.
  std::optional<Tree> expected_tree(std::uint32_t sessions) const;

 private:
  std::size_t size_of(std::uint32_t rows) const {
    const auto size = static_cast<std::size_t>(std::bit_width(std::max(rows, 1u) - 1));
    return std::min(size, tokens_.size() - 1);
  }
  // Requires  passes_.known()
  Tree best_tree(std::uint32_t sessions) const;

  std::uint32_t rows_max_;
  // By size, root included: 1 row, 2, up to 4, up to 8, ..., up to 256.
  std::array<RunningMean, 9> tokens_{};
  std::array<RunningMean, 9> drafting_{};
  std::uint32_t step_ = 0;
  std::uint32_t trees_ = 0;  // that brought something or nothing
  CostFit passes_;
  // Seconds of passes and drafting, and of those trees that were no more than tried.
  double spent_ = 0.0;
  double tried_ = 0.0;
  bool trying_ = false;
};

}  // namespace edgedraft
