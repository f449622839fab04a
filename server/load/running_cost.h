#pragma once

#include <cstdint>
#include <vector>

#include "shared/base/clock.h"

// What passes are learned to cost while serving.
namespace edgedraft {

// A mean of all samples so far; once there are `memory` of them, one in which a sample's weight has
// halved after 0.7 times as many further ones.
class RunningMean {
 public:
  RunningMean() = default;
  explicit RunningMean(double memory) : memory_(memory) {}
  void add(double sample);
  bool known() const { return weight_ > 0.0; }
  double value() const { return value_; }
  // How many samples the mean counts for, at most `memory`.
  double weight() const { return weight_; }

 private:
  double memory_ = 50.0;
  double value_ = 0.0;
  double weight_ = 0.0;
};

// Seconds: fixed and for each row or token.
struct LinearCost {
  double fixed = 0.0;
  double each = 0.0;

  double seconds(double count) const { return fixed + each * count; }
};

// A line through samples, whose weight has halved after 140 further ones.
class CostFit {
 public:
  void add(std::uint32_t count, Duration time);
  bool known() const { return weight_ > 0.0; }
  // Whether samples were so far apart that they tell of other counts.
  bool knows_counts() const { return known() && largest_ >= 2.0 * smallest_; }
  LinearCost cost() const;

 private:
  double smallest_ = 0.0;
  double largest_ = 0.0;
  double weight_ = 0.0;
  double count_ = 0.0;
  double count_squared_ = 0.0;
  double seconds_ = 0.0;
  double count_seconds_ = 0.0;
};

// What was measured at the start, joined by straight lines, times what samples took since, by what
// it tells of them: where all samples have about the same count, the start still tells of others.
// Where nothing was measured, a line through the samples.
class CostCurve {
 public:
  // Requires  a count above those before
  void anchor(std::uint32_t count, Duration time);
  void add(std::uint32_t count, Duration time);
  bool known() const { return !anchors_.empty() || line_.known(); }
  // Whether it tells of other counts than those that were seen.
  bool knows_counts() const { return !anchors_.empty() || line_.knows_counts(); }
  double seconds(double count) const;

 private:
  struct Anchor {
    double count;
    double seconds;
  };
  double anchored(double count) const;

  std::vector<Anchor> anchors_;
  RunningMean factor_;
  CostFit line_;
};

// What a pass of so many rows takes; 1 until anything is known.
inline double pass_seconds(const CostCurve& costs, std::uint32_t rows) {
  return costs.known() ? costs.seconds(rows) : 1.0;
}

}  // namespace edgedraft
