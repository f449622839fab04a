#pragma once

#include <cstdint>
#include <vector>

#include "shared/base/clock.h"

namespace edgedraft {

// Mean of all samples; after `memory` samples, an exponential mean with a half-life of 0.7 * memory
// samples.
class RunningMean {
 public:
  RunningMean() = default;
  explicit RunningMean(double memory) : memory_(memory) {}
  void add(double sample);
  bool known() const { return weight_ > 0.0; }
  double value() const { return value_; }
  // Effective number of samples, at most `memory`.
  double weight() const { return weight_; }

 private:
  double memory_ = 50.0;
  double value_ = 0.0;
  double weight_ = 0.0;
};

// Seconds: a fixed part and a part per row or token.
struct LinearCost {
  double fixed = 0.0;
  double each = 0.0;

  double seconds(double count) const { return fixed + each * count; }
};

// Linear fit with a half-life of 140 samples.
class CostFit {
 public:
  void add(std::uint32_t count, Duration time);
  bool known() const { return weight_ > 0.0; }
  // True if the samples span enough counts to extrapolate.
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

// Startup measurements, joined by straight lines. Later samples scale all of them, and each one by
// the samples nearest to it: passes of a mixture of experts cost less on real text than on made-up
// tokens, whose rows share fewer experts. Without measurements, a line through the samples.
class CostCurve {
 public:
  // Requires  a count above all earlier ones
  void anchor(std::uint32_t count, Duration time);
  void add(std::uint32_t count, Duration time);
  bool known() const { return !anchors_.empty() || line_.known(); }
  // True if it can predict counts not yet seen.
  bool knows_counts() const { return !anchors_.empty() || line_.knows_counts(); }
  double seconds(double count) const;

 private:
  struct Anchor {
    double count;
    double seconds;
    // Fading number of samples near this count, and sum of their times relative to `seconds`.
    double weight = 0.0;
    double factors = 0.0;
  };
  // Joins the anchors' values of `at`.
  template <class At>
  double joined(double count, const At& at) const;
  double measured(double count) const;
  double corrected(const Anchor& anchor) const;

  std::vector<Anchor> anchors_;
  RunningMean factor_;
  CostFit line_;
};

// Seconds per pass of `rows` rows; 1 before any sample.
inline double pass_seconds(const CostCurve& costs, std::uint32_t rows) {
  return costs.known() ? costs.seconds(rows) : 1.0;
}

}  // namespace edgedraft
