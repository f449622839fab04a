#include "netsim/report/acceptance.h"

#include <gtest/gtest.h>

namespace edgedraft::netsim {
namespace {

// Answers of six prompts per task, each of `cycles` cycles with `tau` tokens.
std::vector<Run> answers(double arith_tau, double arith_cycles, double story_tau,
                         double story_cycles) {
  std::vector<Run> runs;
  for (int i = 0; i < 6; ++i) {
    const double wobble = 0.1 * (i - 2.5);
    for (const bool story : {false, true}) {
      Run run{};
      run.task = story ? "story" : "arith";
      run.prompt = run.task + "-" + std::to_string(i);
      run.drafted = 62;
      run.cycles = story ? story_cycles : arith_cycles;
      run.tau = (story ? story_tau : arith_tau) + wobble;
      runs.push_back(run);
    }
  }
  return runs;
}

std::vector<const Run*> pointers(const std::vector<Run>& runs) {
  std::vector<const Run*> all;
  for (const Run& run : runs) all.push_back(&run);
  return all;
}

TEST(AcceptanceTest, WeighsTasksEqually) {
  auto runs = answers(6, 2, 4, 50);
  netsim::Run streamed{};
  streamed.task = "story";
  streamed.prompt = "story-0";
  streamed.cycles = 40;
  streamed.tau = 1;
  runs.push_back(streamed);  // it has no drafts
  const Acceptance a = acceptance_of(pointers(runs), {});
  EXPECT_NEAR(a.tasks.at("arith"), 6, 1e-9);
  EXPECT_NEAR(a.tasks.at("story"), 4, 1e-9);
  EXPECT_NEAR(a.mean.value, 5, 1e-9);
  EXPECT_TRUE(a.mean.known);
  EXPECT_LT(a.mean.low, 5);
  EXPECT_GT(a.mean.high, 5);
  EXPECT_FALSE(a.difference.known);
}

// Effects of prompts on both arms do not widen the difference.
TEST(AcceptanceTest, PairsDifferencesByPrompt) {
  const auto ours = answers(6, 2, 4, 50);
  const auto theirs = answers(5.5, 2, 3.5, 50);
  const Acceptance a = acceptance_of(pointers(ours), pointers(theirs));
  EXPECT_NEAR(a.difference.value, 0.5, 1e-9);
  EXPECT_NEAR(a.difference.low, 0.5, 1e-9);
  EXPECT_NEAR(a.difference.high, 0.5, 1e-9);
  EXPECT_TRUE(a.difference.claims(0));
}

TEST(AcceptanceTest, ArmsWithoutCommonPromptHaveNoDifference) {
  RunData data;
  data.settings = {"lan"};
  data.arms = {"a", "b"};
  for (const std::string& arm : data.arms) {
    for (netsim::Run run : answers(6, 2, 4, 50)) {
      run.setting = "lan";
      run.arm = arm;
      run.prompt += arm;
      data.runs.push_back(run);
    }
  }
  EXPECT_NE(acceptance_section(data).find("<td>–</td>"), std::string::npos);
}

TEST(AcceptanceTest, TooFewPromptsHaveNoInterval) {
  auto runs = answers(6, 2, 4, 50);
  std::erase_if(
      runs, [](const netsim::Run& run) { return run.prompt > "arith-3" && run.task == "arith"; });
  EXPECT_FALSE(acceptance_of(pointers(runs), {}).mean.known);
}

}  // namespace
}  // namespace edgedraft::netsim
