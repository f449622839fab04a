#pragma once

#include <array>
#include <cstdint>

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
  explicit RowBudget(std::uint32_t pass_rows_max);

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
  // Sizes 1, 2, up to 4, up to 8, ..., up to 256 rows.
  static constexpr std::size_t kSizes = 9;
  struct Mean {
    double value = 0.0;
    bool known = false;

    void add(double sample);
  };
  // Seconds: fixed and for each row or token.
  struct Cost {
    double fixed = 0.0;
    double each = 0.0;
  };
  // A line through recent samples, older ones fading.
  class Fit {
   public:
    explicit Fit(double memory) : memory_(memory) {}

    void add(double count, double seconds);
    bool known() const { return weight_ > 0.0; }
    Cost cost() const;

   private:
    double memory_;  // what is left of a sample's weight after another one
    double weight_ = 0.0;
    double count_ = 0.0;
    double count_squared_ = 0.0;
    double seconds_ = 0.0;
    double count_seconds_ = 0.0;
  };

  double pass_seconds(const Cost& cost, double rows) const;
  // Tokens from drafts of each size; sizes that nobody sent yet are between their neighbours.
  std::array<double, kSizes> tokens_by_size() const;

  std::uint32_t pass_rows_max_;
  std::array<Mean, kSizes> tokens_{};
  Mean absence_;  // seconds
  Fit passes_;
  Fit deliveries_;
};

}  // namespace edgedraft
