#include "server/hints/hint_calibration.h"

#include <algorithm>
#include <cmath>

namespace edgedraft::server {
namespace {

// Prior weight of a score's own estimate, in observed hints.
constexpr double kPriorWeight = 8.0;
// Older hints count less, since text changes.
constexpr double kRemembered = 200.0;

}  // namespace

std::uint32_t HintCalibration::bin_of(ScoreSteps score) {
  return std::min(score / kStepsPerBin, kBins - 1);
}

double HintCalibration::probability(ScoreSteps score) const {
  const double said = std::exp(static_cast<double>(from_steps(score)));
  const Bin& bin = bins_[bin_of(score)];
  return (kPriorWeight * said + bin.accepted) / (kPriorWeight + bin.count);
}

void HintCalibration::observe(ScoreSteps score, bool accepted) {
  Bin& bin = bins_[bin_of(score)];
  if (bin.count >= kRemembered) {
    bin.accepted *= (kRemembered - 1.0) / bin.count;
    bin.count = kRemembered - 1.0;
  }
  bin.accepted += accepted ? 1.0 : 0.0;
  bin.count += 1.0;
}

}  // namespace edgedraft::server
