#include "tests/bench/acceptance_counts.h"

#include <gtest/gtest.h>

#include "tests/bench/bootstrap.h"

namespace edgedraft::bench {
namespace {

// So many answers of 10 cycles each; each next one brings 1 token more than the one before.
TaskCounts counts_of(int answers, double first_tokens) {
  TaskCounts counts;
  for (int i = 0; i < answers; ++i) counts.add(first_tokens + i, 10, 60);
  return counts;
}

// A drafter that was ahead on one prompt has not been shown to be ahead.
TEST(AcceptanceCountsTest, FewPromptsShowNothing) {
  for (const int answers : {1, 4}) {
    const TaskCounts ours = counts_of(answers, 35);
    const TaskCounts theirs = counts_of(answers, 30);
    const netsim::Estimate length = ours.acceptance_length();
    EXPECT_NEAR(length.value, 3.5 + 0.05 * (answers - 1), 1e-9);
    EXPECT_FALSE(length.known);
    EXPECT_EQ(interval_text(length), "[too few prompts]");
    const netsim::Estimate more = mean_acceptance_difference({{"tool", ours}}, {{"tool", theirs}});
    EXPECT_NEAR(more.value, 0.5, 1e-9);
    EXPECT_FALSE(more.claims(0));
    const auto json = estimate_json("tau", more);
    EXPECT_TRUE(json["low"].is_null());
    EXPECT_TRUE(json["high"].is_null());
  }
}

TEST(AcceptanceCountsTest, FivePromptsOfEachTaskHaveAnInterval) {
  const CountsByTask tasks{{"story", counts_of(5, 20)}, {"tool", counts_of(5, 50)}};
  const netsim::Estimate mean = mean_acceptance_length(tasks);
  EXPECT_NEAR(mean.value, 3.7, 1e-9);
  EXPECT_TRUE(mean.known);
  EXPECT_LT(mean.low, mean.value);
  EXPECT_GT(mean.high, mean.value);
  EXPECT_EQ(estimate_json("tau", mean)["low"], mean.low);
}

TEST(AcceptanceCountsTest, ATaskOfFewPromptsLeavesTheMeanWithoutAnInterval) {
  const CountsByTask tasks{{"story", counts_of(5, 20)}, {"tool", counts_of(1, 50)}};
  const netsim::Estimate mean = mean_acceptance_length(tasks);
  EXPECT_NEAR(mean.value, 3.6, 1e-9);
  EXPECT_FALSE(mean.known);
}

}  // namespace
}  // namespace edgedraft::bench
