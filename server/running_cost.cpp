#include "server/running_cost.h"

namespace edgedraft {
namespace {

// What is left of a sample's weight after another one.
constexpr double kMeanMemory = 0.98;
constexpr double kFitMemory = 0.995;

}  // namespace

void RunningMean::add(double sample) {
  value = known ? kMeanMemory * value + (1.0 - kMeanMemory) * sample : sample;
  known = true;
}

void CostFit::add(std::uint32_t count, Duration time) {
  const double n = count;
  const double s = seconds(time);
  for (double* sum : {&weight_, &count_, &count_squared_, &seconds_, &count_seconds_}) {
    *sum *= kFitMemory;
  }
  weight_ += 1.0;
  count_ += n;
  count_squared_ += n * n;
  seconds_ += s;
  count_seconds_ += n * s;
}

LinearCost CostFit::cost() const {
  if (!known()) return {};
  const double spread = weight_ * count_squared_ - count_ * count_;
  const double mean = seconds_ / weight_;
  // Samples of one width alone tell nothing of another width's cost: then a row costs nothing more.
  if (spread < 1e-6 * weight_ * count_squared_) return {.fixed = mean, .each = 0.0};
  const double each = std::max(0.0, (weight_ * count_seconds_ - count_ * seconds_) / spread);
  return {.fixed = std::max(0.0, mean - each * count_ / weight_), .each = each};
}

}  // namespace edgedraft
