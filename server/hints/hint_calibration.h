#pragma once

#include <array>
#include <cstdint>

#include "shared/speculative/score.h"

namespace edgedraft::server {

// Measured acceptance probability per hint score, from the session's own passes. Drafters
// underestimate their paths, each differently, and a peer may send any score, so rows are allotted
// by measured acceptance.
class HintCalibration {
 public:
  // Acceptance probability of a hint whose path has this score.
  double probability(ScoreSteps score) const;
  // Records a hint of that score that took part in a pass.
  void observe(ScoreSteps score, bool accepted);

 private:
  // The last bin collects all less likely scores.
  static constexpr ScoreSteps kStepsPerBin = 2;
  static constexpr std::uint32_t kBins = 24;

  struct Bin {
    double accepted = 0.0;
    double count = 0.0;
  };
  static std::uint32_t bin_of(ScoreSteps score);

  std::array<Bin, kBins> bins_{};
};

}  // namespace edgedraft::server
