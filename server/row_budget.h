#pragma once

#include <array>
#include <cstdint>

#include "server/running_cost.h"
#include "shared/base/clock.h"

namespace edgedraft {

// How many rows a draft should have so that all sessions together get the most tokens a second,
// learned from what passes cost, what drafts brought and how long sessions are away in between.
// While the server has time to spare, trees cost nobody anything; as load rises they shrink to
// chains and at last to single tokens, so that speculation never costs throughput.
//
// n sessions send drafts of r rows that bring tau(r) tokens; passes of at most R rows cost
// S(x) = ceil(x / R) * a + b * x for x rows; behind the pass each draft's activations cost
// D(t) = c + d * t for the t positions that became valid, one after another; a session needs Z to
// answer a verdict with the next draft. Then all of them get at most n * tau(r) tokens in
//   max(S(n r) + n D(tau(r)), Z + S(r) + D(tau(r))),
// the bound of a closed queue, and the r that makes this ratio largest is the budget. a, b, c and d
// are fitted to recent passes and drafts, tau (by size) and Z are running means.
class RowBudget {
 public:
  explicit RowBudget(std::uint32_t pass_rows_max) : pass_rows_max_(pass_rows_max) {}

  // A pass of so many rows took so long.
  void observe_pass(std::uint32_t rows, Duration time);
  // A draft of `rows` rows, root included, brought `tokens` tokens, the target's own included.
  void observe_draft(std::uint32_t rows, std::uint32_t tokens);
  // The activations of a draft that brought `tokens` tokens took so long, zero where there are
  // none.
  void observe_delivery(std::uint32_t tokens, Duration time);
  // A session sent its next draft so long after it had the verdict.
  void observe_absence(Duration time);
  // Rows a draft, root included, while `sessions` sessions draft. At least 1; pass_rows_max until
  // something is known.
  std::uint32_t rows_for(std::uint32_t sessions) const;

 private:
  double pass_seconds(const LinearCost& cost, double rows) const;
  // Tokens from drafts of each size; sizes that nobody sent yet are between their neighbours.
  std::array<double, kDraftSizes> tokens_by_size() const;

  std::uint32_t pass_rows_max_;
  std::array<RunningMean, kDraftSizes> tokens_{};
  RunningMean absence_;  // seconds
  CostFit passes_;
  CostFit deliveries_;
};

}  // namespace edgedraft
