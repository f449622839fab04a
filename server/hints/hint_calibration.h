#pragma once

#include <array>
#include <cstdint>

#include "shared/speculative/score.h"

namespace edgedraft {

// How often hints of a score turn out to be what the target chooses, as a session's passes have
// shown. Drafters underrate their paths, each in its own way, and a peer may say anything: rows are
// given by what was seen of its scores.
class HintCalibration {
 public:
  // How likely a hint is to be accepted whose path has this score.
  double probability(ScoreSteps score) const;
  // A hint of that score took part in a pass.
  void observe(ScoreSteps score, bool accepted);

 private:
  // The last bin has all that is less likely.
  static constexpr ScoreSteps kStepsPerBin = 2;
  static constexpr std::uint32_t kBins = 24;

  struct Bin {
    double accepted = 0.0;
    double count = 0.0;
  };
  static std::uint32_t bin_of(ScoreSteps score);

  std::array<Bin, kBins> bins_{};
};

}  // namespace edgedraft
