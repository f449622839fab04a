#include "tests/bench/acceptance_counts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "netsim/report/acceptance.h"

namespace edgedraft::bench {
namespace {

// `answers` answers of 10 cycles each; each one has 1 token more than the one before.
TaskCounts counts_of(int answers, double first_tokens) {
  TaskCounts counts;
  for (int i = 0; i < answers; ++i) counts.add(first_tokens + i, 10, 60);
  return counts;
}

// A lead on one prompt proves nothing.
TEST(AcceptanceCountsTest, TooFewPromptsHaveNoInterval) {
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

TEST(AcceptanceCountsTest, FivePromptsPerTaskHaveInterval) {
  const CountsByTask tasks{{"story", counts_of(5, 20)}, {"tool", counts_of(5, 50)}};
  const netsim::Estimate mean = mean_acceptance_length(tasks);
  EXPECT_NEAR(mean.value, 3.7, 1e-9);
  EXPECT_TRUE(mean.known);
  EXPECT_LT(mean.low, mean.value);
  EXPECT_GT(mean.high, mean.value);
  EXPECT_EQ(estimate_json("tau", mean)["low"], mean.low);
}

// A resample without the task's one long answer, which is hard to draft for, is far above its mean.
TEST(AcceptanceCountsTest, MeanOfOneTaskHasItsInterval) {
  TaskCounts counts = counts_of(5, 50);
  counts.add(40, 40, 240);
  const netsim::Estimate task = counts.acceptance_length();
  const netsim::Estimate mean = mean_acceptance_length({{"story", counts}});
  EXPECT_GT(task.high - task.value, 1.2 * (task.value - task.low));
  EXPECT_EQ(mean.low, task.low);
  EXPECT_EQ(mean.high, task.high);
}

// Figures of the bench and of experiments are compared with each other.
TEST(AcceptanceCountsTest, IntervalsMatchExperimentReport) {
  CountsByTask ours;
  CountsByTask theirs;
  std::vector<netsim::Run> our_runs;
  std::vector<netsim::Run> their_runs;
  for (const char* task : {"story", "tool"}) {
    for (int i = 0; i < 6; ++i) {
      netsim::Run run{};
      run.task = task;
      run.prompt = std::to_string(i);
      run.drafted = 62;
      run.cycles = 8 << (i % 3);
      run.tau = 4 + 0.25 * i;
      ours[task].add(run.tau * run.cycles, run.cycles, 62);
      our_runs.push_back(run);
      run.tau = 3 + 0.5 * (i % 4);
      theirs[task].add(run.tau * run.cycles, run.cycles, 62);
      their_runs.push_back(run);
    }
  }
  const auto pointers = [](const std::vector<netsim::Run>& runs) {
    std::vector<const netsim::Run*> all;
    for (const netsim::Run& run : runs) all.push_back(&run);
    return all;
  };
  const netsim::Acceptance report = netsim::acceptance_of(pointers(our_runs), pointers(their_runs));
  const netsim::Estimate mean = mean_acceptance_length(ours);
  EXPECT_TRUE(mean.known);
  EXPECT_EQ(mean.low, report.mean.low);
  EXPECT_EQ(mean.high, report.mean.high);
  const netsim::Estimate difference = mean_acceptance_difference(ours, theirs);
  EXPECT_EQ(difference.low, report.difference.low);
  EXPECT_EQ(difference.high, report.difference.high);
}

TEST(AcceptanceCountsTest, MeanHasNoIntervalIfATaskHasTooFewPrompts) {
  const CountsByTask tasks{{"story", counts_of(5, 20)}, {"tool", counts_of(1, 50)}};
  const netsim::Estimate mean = mean_acceptance_length(tasks);
  EXPECT_NEAR(mean.value, 3.6, 1e-9);
  EXPECT_FALSE(mean.known);
}

}  // namespace
}  // namespace edgedraft::bench
