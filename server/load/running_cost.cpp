#include "server/load/running_cost.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft::server {
namespace {

// Weight left of a sample after one more.
constexpr double kFitMemory = 0.995;
// Weight of startup measurements, in samples.
constexpr double kAnchorWeight = 4.0;

}  // namespace

void RunningMean::add(double sample) {
  weight_ = std::min(weight_ + 1.0, memory_);
  value_ += (sample - value_) / weight_;
}

void CostFit::add(std::uint32_t count, Duration time) {
  const double n = count;
  const double s = seconds(time);
  smallest_ = known() ? std::min(smallest_, n) : n;
  largest_ = std::max(largest_, n);
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
  // One width alone gives no slope: rows count as free.
  if (spread < 1e-6 * weight_ * count_squared_) return {.fixed = mean, .each = 0.0};
  const double each = std::max(0.0, (weight_ * count_seconds_ - count_ * seconds_) / spread);
  return {.fixed = std::max(0.0, mean - each * count_ / weight_), .each = each};
}

void CostCurve::anchor(std::uint32_t count, Duration time) {
  EDGEDRAFT_CHECK(anchors_.empty() || count > anchors_.back().count);
  // A wider pass cannot be faster; noise was lower.
  const double least = anchors_.empty() ? 1e-9 : anchors_.back().seconds;
  anchors_.push_back(
      {.count = static_cast<double>(count), .seconds = std::max(edgedraft::seconds(time), least)});
}

void CostCurve::add(std::uint32_t count, Duration time) {
  if (anchors_.empty()) {
    line_.add(count, time);
  } else {
    factor_.add(edgedraft::seconds(time) / anchored(count));
  }
}

double CostCurve::seconds(double count) const {
  if (anchors_.empty()) return line_.cost().seconds(count);
  return anchored(count) * (kAnchorWeight + factor_.weight() * factor_.value()) /
         (kAnchorWeight + factor_.weight());
}

double CostCurve::anchored(double count) const {
  if (anchors_.size() == 1 || count <= anchors_.front().count) return anchors_.front().seconds;
  auto after = std::find_if(anchors_.begin(), anchors_.end(),
                            [&](const Anchor& anchor) { return anchor.count >= count; });
  if (after == anchors_.end()) --after;
  const Anchor& before = *(after - 1);
  return before.seconds +
         (after->seconds - before.seconds) * (count - before.count) / (after->count - before.count);
}

}  // namespace edgedraft::server
