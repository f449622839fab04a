#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "server/passes/hint_selection.h"
#include "shared/forecast/cost_curve.h"

namespace edgedraft::server {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kWidths[] = {1, 2, 4, 8, 16, 32, 64};

// A pass that reads 8 of 128 experts per row, chosen at random: 2 ms, and 18 ms for all experts.
double experts_seconds(std::uint32_t rows) {
  return 0.002 + 0.018 * (1.0 - std::pow(1.0 - 8.0 / 128.0, rows)) + 1e-4 * rows;
}

// As many operations, but all weights are read by every row.
double dense_seconds(std::uint32_t rows) {
  return 0.003 + 1e-4 * rows;
}

CostCurve measured(double (*seconds)(std::uint32_t rows)) {
  CostCurve costs;
  for (const std::uint32_t rows : kWidths) costs.anchor(rows, from_seconds(seconds(rows)));
  return costs;
}

// Hints taken of one client's chain with this acceptance.
std::uint32_t chain_taken(const CostCurve& costs, double acceptance) {
  std::vector<double> chain;
  for (int i = 1; i <= 32; ++i) chain.push_back(std::pow(acceptance, i));
  const RunOffer run{.probabilities = chain, .history = {.was_hinted = true}};
  return select_hints(
             {.rows_max = 64}, std::span(&run, 1),
             [&](std::uint32_t rows) { return costs.seconds(rows); }, Instant())
      .taken[0];
}

TEST(CostCurveTest, TakesShorterChainsIfRowsReadMoreExperts) {
  const CostCurve experts = measured(experts_seconds);
  const CostCurve dense = measured(dense_seconds);
  EXPECT_GE(chain_taken(dense, 0.8), 8u);
  EXPECT_GE(chain_taken(experts, 0.9), 2u);
  EXPECT_LE(chain_taken(experts, 0.8), 4u);
  EXPECT_GE(chain_taken(dense, 0.3), 2u);
  EXPECT_EQ(chain_taken(experts, 0.3), 0u);
}

// Rows of real text share experts; those of the startup measurement do not.
TEST(CostCurveTest, LearnsWidthsFromPasses) {
  CostCurve costs = measured(experts_seconds);
  for (int i = 0; i < 50; ++i) {
    costs.add(1, from_seconds(experts_seconds(1)));
    costs.add(8, from_seconds(0.5 * experts_seconds(8)));
  }
  EXPECT_NEAR(costs.seconds(1) / experts_seconds(1), 1.0, 0.05);
  EXPECT_NEAR(costs.seconds(8) / experts_seconds(8), 0.5, 0.05);
  // Widths that were not run follow the mean.
  EXPECT_NEAR(costs.seconds(32) / experts_seconds(32), 0.75, 0.05);
}

// A disturbance during a few wide passes must not rule them out forever.
TEST(CostCurveTest, ForgetsWidthsThatAreNotRun) {
  CostCurve costs = measured(dense_seconds);
  for (int i = 0; i < 20; ++i) costs.add(8, from_seconds(10.0 * dense_seconds(8)));
  EXPECT_GT(costs.seconds(8), 5.0 * dense_seconds(8));
  for (int i = 0; i < 2000; ++i) costs.add(1, from_seconds(dense_seconds(1)));
  EXPECT_NEAR(costs.seconds(8) / dense_seconds(8), 1.0, 0.05);
}

TEST(CostCurveTest, NeverPredictsFasterPassesBeyondMeasuredWidths) {
  CostCurve costs = measured(dense_seconds);
  for (int i = 0; i < 200; ++i) costs.add(64, from_seconds(0.1 * dense_seconds(64)));
  EXPECT_GE(costs.seconds(256), costs.seconds(64));
}

}  // namespace
}  // namespace edgedraft::server
