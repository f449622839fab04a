#include "netsim/run/plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace edgedraft::netsim {
namespace {

Experiment three_arms() {
  Experiment e;
  e.name = "x";
  e.devices = {{.name = "native", .file = {}, .pace = {}}};
  e.seeds = {1, 2};
  e.repetitions = 3;
  e.warm_up = 1;
  for (const char* id : {"a-1", "a-2", "a-3", "a-4"}) e.prompts.push_back({.id = id});
  e.arms = {{.name = "plain", .kind = Arm::Kind::plain},
            {.name = "split", .kind = Arm::Kind::split},
            {.name = "stop", .kind = Arm::Kind::stop}};
  return e;
}

std::vector<NetworkProfile> one_network() {
  NetworkProfile network;
  network.name = "lan";
  network.up.bits_per_second = network.down.bits_per_second = 1'000'000;
  return {network};
}

TEST(PlanTest, EveryArmAnswersPromptBeforeNextPrompt) {
  const auto stages = plan(three_arms(), one_network());
  ASSERT_EQ(stages.size(), 2u);  // one per seed
  std::set<std::vector<std::size_t>> orders;
  for (const Stage& stage : stages) {
    ASSERT_EQ(stage.trials.size(), 3u * (1 + 3 * 4));
    for (std::size_t block = 0; block < stage.trials.size(); block += 3) {
      std::set<std::size_t> arms;
      std::vector<std::size_t> order;
      for (std::size_t i = block; i < block + 3; ++i) {
        EXPECT_EQ(stage.trials[i].prompt, stage.trials[block].prompt);
        EXPECT_EQ(stage.trials[i].warm_up, block == 0);
        arms.insert(stage.trials[i].arm);
        order.push_back(stage.trials[i].arm);
      }
      EXPECT_EQ(arms.size(), 3u);
      orders.insert(order);
    }
  }
  EXPECT_GT(orders.size(), 1u);  // the order differs between blocks
}

TEST(PlanTest, IsDeterministicWithoutDuplicateTrials) {
  const auto once = plan(three_arms(), one_network());
  const auto again = plan(three_arms(), one_network());
  std::set<std::string> ids;
  std::size_t count = 0;
  for (std::size_t s = 0; s < once.size(); ++s) {
    for (std::size_t i = 0; i < once[s].trials.size(); ++i) {
      EXPECT_EQ(once[s].trials[i].id, again[s].trials[i].id);
      if (once[s].trials[i].warm_up) continue;
      ids.insert(once[s].trials[i].id);
      ++count;
    }
  }
  EXPECT_EQ(ids.size(), count);
}

TEST(PlanTest, CutsOnlyArmsThatContinueOrStop) {
  Experiment e = three_arms();
  e.offline_after = {10, std::nullopt};
  std::map<std::size_t, int> cut;
  for (const Stage& stage : plan(e, one_network())) {
    for (const Trial& trial : stage.trials) cut[trial.arm] += trial.offline_after ? 1 : 0;
  }
  EXPECT_EQ(cut[0], 0);
  EXPECT_EQ(cut[1], 2 * 3 * 4);
  EXPECT_EQ(cut[2], 2 * 3 * 4);
}

TEST(PlanTest, WarmsUpArmsEvenIfEveryLinkIsCut) {
  Experiment e = three_arms();
  e.arms.erase(e.arms.begin());
  e.offline_after = {10, 20};
  for (const Stage& stage : plan(e, one_network())) {
    ASSERT_EQ(stage.trials.size(), 2u * (1 + 3 * 4 * 2));
    for (std::size_t i = 0; i < stage.trials.size(); ++i) {
      EXPECT_EQ(stage.trials[i].warm_up, i < 2);
      EXPECT_EQ(stage.trials[i].offline_after.has_value(), i >= 2);
    }
  }
}

// Draft errors are resampled with prompts, so no two of these may share their positions.
TEST(PlanTest, DraftSeedsDifferPerPromptClientRepetitionAndSeed) {
  std::set<std::uint64_t> seeds;
  for (const std::uint64_t seed : {1, 2, 1000}) {
    for (const std::uint32_t repetition : {0u, 1u, 11u}) {
      for (const char* prompt : {"a-1", "a-11", "1|a-1"}) {
        for (const std::uint32_t client : {0u, 1u}) {
          seeds.insert(draft_seed(seed, repetition, prompt, client));
          EXPECT_EQ(draft_seed(seed, repetition, prompt, client),
                    draft_seed(seed, repetition, prompt, client));
        }
      }
    }
  }
  EXPECT_EQ(seeds.size(), 3u * 3 * 3 * 2);
}

TEST(PlanTest, ExpectsSlowerLinkToTakeLonger) {
  const Experiment e = three_arms();
  auto network = one_network().front();
  const Trial trial{.arm = 1, .prompt = 0};
  const double fast = expected_seconds(e, network, e.devices[0], trial);
  network.up.delay.centre = std::chrono::milliseconds(100);
  EXPECT_GT(expected_seconds(e, network, e.devices[0], trial), fast + 1);
}

}  // namespace
}  // namespace edgedraft::netsim
