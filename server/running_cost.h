#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "shared/base/clock.h"

// What RowBudget and SpeculationBudget learn from while serving.
namespace edgedraft {

// Sizes of drafts, root included: 1 row, 2, up to 4, up to 8, ..., up to 256.
constexpr std::size_t kDraftSizes = 9;
inline std::size_t draft_size(std::uint32_t rows) {
  const auto size = static_cast<std::size_t>(std::bit_width(std::max(rows, 1u) - 1));
  return std::min(size, kDraftSizes - 1);
}
constexpr std::uint32_t rows_of_size(std::size_t size) {
  return 1u << size;
}

// A mean in which a sample's weight has halved after 35 further ones.
struct RunningMean {
  double value = 0.0;
  bool known = false;

  void add(double sample);
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
  LinearCost cost() const;

 private:
  double weight_ = 0.0;
  double count_ = 0.0;
  double count_squared_ = 0.0;
  double seconds_ = 0.0;
  double count_seconds_ = 0.0;
};

}  // namespace edgedraft
