#pragma once

#include <cstdint>

#include "server/load/running_cost.h"

namespace edgedraft {

// Whether probes are worth their rows. They bring nothing in the pass that they are part of; what
// they bring are the guesses of later ones.
//
// n sessions whose passes have r rows each and bring b tokens without the server's guesses, and g
// more with them, get n (b + g) tokens in the time of n r rows. With probes r is larger by theirs,
// and g is what was seen of passes with probes; without, what was seen of passes without. The way
// with more tokens a second is taken. Until enough was seen, probes are expected to bring a token a
// pass, so where a row costs as much as a pass they are never made, and where many sessions share a
// pass they vanish. They are tried again now and then (for at most 2 % of the time), as texts
// change.
class ProbeBudget {
 public:
  // `rows_max`: probes that a session has use for in a pass; 0: it has none.
  explicit ProbeBudget(std::uint32_t rows_max) : rows_max_(rows_max) {}

  struct Load {
    std::uint32_t sessions;
    std::uint32_t pass_rows_max;
    const CostCurve& costs;
  };
  // How many probe rows a session's next pass may have.
  std::uint32_t next_rows(const Load& load);

  // A session's part in a pass.
  struct Outcome {
    std::uint32_t rows;  // without probes, root included
    std::uint32_t probe_rows;
    std::uint32_t tokens;
    std::uint32_t guessed;  // of them, that only the server's own guesses brought
  };
  void observe(const Outcome& outcome);

 private:
  struct Way {
    RunningMean rows;
    RunningMean guessed;
  };
  // Seconds until each of the sessions has had a pass of so many rows.
  static double round_seconds(const Load& load, double rows);
  double tokens(const Way& way, double expected) const;
  double rows(const Way& way) const;

  std::uint32_t rows_max_;
  RunningMean base_{kRemembered};  // tokens of a pass without the server's guesses
  Way with_{RunningMean(kRemembered), RunningMean(kRemembered)};
  Way without_{RunningMean(kRemembered), RunningMean(kRemembered)};
  std::uint32_t step_ = 0;
  // Seconds of all passes, and what probes that were no more than tried added to them.
  double spent_ = 0.0;
  double tried_ = 0.0;

  static constexpr double kRemembered = 400.0;
};

}  // namespace edgedraft
