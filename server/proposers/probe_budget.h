#pragma once

#include <cstdint>

#include "shared/forecast/cost_curve.h"

namespace edgedraft::server {

// Decides whether probes are worth their rows. They gain nothing in their own pass; their answers
// improve the guesses of later ones.
//
// n sessions whose passes have r rows each and gain b tokens without the server's guesses, and g
// more with them, get n (b + g) tokens in the time of n r rows. With probes, r is larger and g is
// the gain seen in passes with probes; without, the gain seen in passes without. The choice with
// more tokens per second wins. Until enough was seen, probes are assumed to gain one token per
// pass. They are then never used if a row costs as much as a pass, or if many sessions share a
// pass. They are retried periodically (at most 2 % of the time), since texts change.
class ProbeBudget {
 public:
  // `rows_max`: probe rows a session can use per pass; 0: none.
  explicit ProbeBudget(std::uint32_t rows_max) : rows_max_(rows_max) {}

  struct Load {
    std::uint32_t sessions;
    std::uint32_t pass_rows_max;
    const CostCurve& costs;
  };
  // Probe rows allowed in a session's next pass.
  std::uint32_t next_rows(const Load& load);

  // A session's share of a pass.
  struct Outcome {
    std::uint32_t rows;  // without probes, root included
    std::uint32_t probe_rows;
    std::uint32_t tokens;
    std::uint32_t guessed;  // tokens gained by the server's guesses alone
  };
  void observe(const Outcome& outcome);

 private:
  struct Way {
    RunningMean rows;
    RunningMean guessed;
  };
  // Seconds for one pass of `rows` rows per session.
  static double round_seconds(const Load& load, double rows);
  double tokens(const Way& way, double expected) const;
  double rows(const Way& way) const;

  std::uint32_t rows_max_;
  RunningMean base_{kRemembered};  // tokens per pass without the server's guesses
  Way with_{RunningMean(kRemembered), RunningMean(kRemembered)};
  Way without_{RunningMean(kRemembered), RunningMean(kRemembered)};
  std::uint32_t step_ = 0;
  // Seconds of all passes, and the seconds that trial probes added.
  double spent_ = 0.0;
  double tried_ = 0.0;

  static constexpr double kRemembered = 400.0;
};

}  // namespace edgedraft::server
