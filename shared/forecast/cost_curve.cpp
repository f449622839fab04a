#include "shared/forecast/cost_curve.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

// Weight left of a sample after one more.
constexpr double kFitMemory = 0.995;
// Weight of startup measurements, in samples.
constexpr double kAnchorWeight = 4.0;
// Samples above the last anchor's count times this correct no anchor alone.
constexpr double kNear = 1.5;

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
    return;
  }
  const double factor = edgedraft::seconds(time) / measured(count);
  factor_.add(factor);
  // Counts that are no longer run return to the common factor, so that they are tried again.
  for (Anchor& anchor : anchors_) {
    anchor.weight *= kFitMemory;
    anchor.factors *= kFitMemory;
  }
  if (count > kNear * anchors_.back().count) return;
  Anchor& nearest = *std::ranges::min_element(anchors_, {}, [&](const Anchor& anchor) {
    return std::max(count / anchor.count, anchor.count / count);
  });
  nearest.weight += 1.0;
  nearest.factors += factor;
}

double CostCurve::seconds(double count) const {
  if (anchors_.empty()) return line_.cost().seconds(count);
  return joined(count, [&](const Anchor& anchor) { return corrected(anchor); });
}

double CostCurve::measured(double count) const {
  return joined(count, [](const Anchor& anchor) { return anchor.seconds; });
}

double CostCurve::corrected(const Anchor& anchor) const {
  const double common =
      (kAnchorWeight + factor_.weight() * factor_.value()) / (kAnchorWeight + factor_.weight());
  return anchor.seconds * (kAnchorWeight * common + anchor.factors) /
         (kAnchorWeight + anchor.weight);
}

template <class At>
double CostCurve::joined(double count, const At& at) const {
  if (anchors_.size() == 1 || count <= anchors_.front().count) return at(anchors_.front());
  auto after =
      std::ranges::find_if(anchors_, [&](const Anchor& anchor) { return anchor.count >= count; });
  const bool is_beyond = after == anchors_.end();
  if (is_beyond) --after;
  const Anchor& before = *(after - 1);
  const double slope = (at(*after) - at(before)) / (after->count - before.count);
  // Corrections may differ, but a pass wider than all measured ones is not faster.
  return at(*after) + (is_beyond ? std::max(0.0, slope) : slope) * (count - after->count);
}

}  // namespace edgedraft
