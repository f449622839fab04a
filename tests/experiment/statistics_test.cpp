#include "netsim/report/statistics.h"

#include <gtest/gtest.h>

namespace edgedraft::netsim {
namespace {

std::vector<Pair> pairs(std::initializer_list<double> ratios) {
  std::vector<Pair> made;
  for (const double ratio : ratios) {
    made.push_back({.group = "p" + std::to_string(made.size()), .ours = 10 * ratio, .theirs = 10});
  }
  return made;
}

TEST(StatisticsTest, ClaimsOnlyClearRatios) {
  const Estimate clear = ratio_of(pairs({1.9, 2.0, 2.1, 2.0, 2.0}));
  EXPECT_NEAR(clear.value, 2.0, 0.01);
  EXPECT_LE(clear.low, clear.value);
  EXPECT_GE(clear.high, clear.value);
  EXPECT_TRUE(clear.claims(1));

  const Estimate unclear = ratio_of(pairs({0.5, 2.0, 0.6, 1.8, 1.1, 0.9}));
  EXPECT_LT(unclear.low, 1);
  EXPECT_GT(unclear.high, 1);
  EXPECT_FALSE(unclear.claims(1));
}

TEST(StatisticsTest, AveragesRatiosGeometrically) {
  EXPECT_NEAR(ratio_of(pairs({2.0, 0.5})).value, 1.0, 1e-12);
}

// Ten repetitions of one prompt do not count as ten prompts.
TEST(StatisticsTest, TooFewGroupsHaveNoInterval) {
  std::vector<Pair> same = pairs({2.0, 2.1, 1.9});
  for (Pair& pair : same) pair.group = "one";
  const Estimate estimate = ratio_of(same);
  EXPECT_FALSE(estimate.known);
  EXPECT_FALSE(estimate.claims(1));
  EXPECT_EQ(estimate.pairs, 3u);
  EXPECT_FALSE(ratio_of(pairs({2.0, 2.1, 1.9, 2.0})).known);
}

TEST(StatisticsTest, IntervalIsDeterministic) {
  const Estimate once = ratio_of(pairs({1.1, 1.4, 0.9, 1.2, 1.3}));
  const Estimate again = ratio_of(pairs({1.1, 1.4, 0.9, 1.2, 1.3}));
  EXPECT_EQ(once.low, again.low);
  EXPECT_EQ(once.high, again.high);
}

TEST(StatisticsTest, OmitsPairsWithoutRatio) {
  EXPECT_EQ(ratio_of({{.group = "p", .ours = 0, .theirs = 1}}).pairs, 0u);
  EXPECT_EQ(difference_of({{.group = "p", .ours = 0, .theirs = 1}}).value, -1);
}

}  // namespace
}  // namespace edgedraft::netsim
