#include "server/proposers/speculation_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace edgedraft::server {
namespace {

using Seconds = std::chrono::duration<double>;

Duration duration(double seconds) {
  return std::chrono::duration_cast<Duration>(Seconds(seconds));
}

// A device that the budget may meet.
struct Device {
  double pass;      // seconds, independent of the width
  double row;       // seconds per row
  double drafting;  // a tree of any size
  double fresh =
      0.0;  // seconds per row that reads other weights, of which there are 16 rows' worth
  double seconds(std::uint32_t rows) const {
    return pass + row * rows + fresh * 16 * (1.0 - std::pow(15.0 / 16.0, rows));
  }
  // Tokens per tree: one, plus half a token per doubling of its size.
  static double tokens(std::uint32_t rows) { return 1.0 + 0.5 * std::log2(rows); }
};

// The tree size that the budget requests most often after it settles.
std::uint32_t settled_rows(const Device& device, std::uint32_t sessions, CostCurve costs = {}) {
  SpeculationBudget budget(63);
  std::map<std::uint32_t, int> counts;
  for (int step = 0; step < 600; ++step) {
    const std::uint32_t rows = budget.next_rows(sessions, costs);
    EXPECT_GE(rows, 1u);
    EXPECT_LE(rows, 63u);
    if (rows > 1) {
      budget.observe_drafting(rows, duration(device.drafting));
      budget.observe_draft(rows, static_cast<std::uint32_t>(std::lround(Device::tokens(rows))));
    }
    const Duration pass = duration(device.seconds(rows * sessions));
    costs.add(rows * sessions, pass);
    budget.observe_pass(pass);
    if (step >= 300) ++counts[rows];
  }
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

TEST(SpeculationBudgetTest, GrowsLargeTreesIfRowsAreCheap) {
  EXPECT_GE(settled_rows({.pass = 0.03, .row = 1e-5, .drafting = 0.002}, 1), 32u);
}

TEST(SpeculationBudgetTest, SkipsTreesIfDraftingTimeExceedsSavings) {
  EXPECT_EQ(settled_rows({.pass = 0.0002, .row = 0.00004, .drafting = 0.004}, 1), 1u);
}

// A line through passes of one row and of full trees would make small trees look cheap.
TEST(SpeculationBudgetTest, SkipsSmallTreesIfFirstRowsCostMost) {
  const Device experts{.pass = 0.002, .row = 1e-4, .drafting = 0.004, .fresh = 0.01};
  CostCurve costs;
  for (const std::uint32_t rows : {1, 2, 4, 8, 16, 32, 64}) {
    costs.anchor(rows, duration(experts.seconds(rows)));
  }
  EXPECT_EQ(settled_rows(experts, 1, costs), 1u);
}

TEST(SpeculationBudgetTest, SkipsTreesIfRowsCostAsMuchAsPasses) {
  EXPECT_EQ(settled_rows({.pass = 0.001, .row = 0.001, .drafting = 0.0005}, 16), 1u);
}

}  // namespace
}  // namespace edgedraft::server
