#include "client/control/cost_line.h"

#include <algorithm>
#include <cmath>

namespace edgedraft::client {
namespace {

constexpr double kRememberedSamples = 60.0;
constexpr double kRowsShare = 0.02;
// Weight of the expected slope, in squared rows.
constexpr double kSlopeWeight = 0.25;

}  // namespace

CostLine::CostLine(const Sums& sums) {
  const double all[]{sums.weight, sums.rows, sums.seconds, sums.rows_squared, sums.product};
  const bool possible = std::ranges::all_of(
      all, [](double sum) { return std::isfinite(sum) && sum > 0.0 && sum < 1e12; });
  if (!possible) return;
  weight_ = std::min(sums.weight, kRememberedSamples);
  const double share = weight_ / sums.weight;
  rows_ = sums.rows * share;
  seconds_ = sums.seconds * share;
  rows_squared_ = sums.rows_squared * share;
  product_ = sums.product * share;
}

void CostLine::add(double rows, double seconds) {
  const double keep = weight_ < kRememberedSamples ? 1.0 : (kRememberedSamples - 1.0) / weight_;
  weight_ = weight_ * keep + 1.0;
  rows_ = rows_ * keep + rows;
  seconds_ = seconds_ * keep + seconds;
  rows_squared_ = rows_squared_ * keep + rows * rows;
  product_ = product_ * keep + rows * seconds;
}

double CostLine::at(double rows) const {
  const double mean_rows = rows_ / weight_;
  const double mean = seconds_ / weight_;
  const double spread = std::max(0.0, rows_squared_ / weight_ - mean_rows * mean_rows);
  const double common = product_ / weight_ - mean_rows * mean;
  const double slope =
      std::max(0.0, (common + kSlopeWeight * kRowsShare * mean) / (spread + kSlopeWeight));
  // Bounds extrapolation: no cost is below a tenth of the mean.
  return std::max(mean + slope * (rows - mean_rows), 0.1 * mean);
}

}  // namespace edgedraft::client
