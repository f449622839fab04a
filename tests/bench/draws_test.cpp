#include "tests/bench/draws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

namespace edgedraft::bench {
namespace {

// 20 prompts of each of seven tasks, in the order of the demo's held-out prompts.
std::vector<netsim::Prompt> prompts_by_task() {
  std::vector<netsim::Prompt> prompts;
  for (const char* task : {"tool", "sql", "time", "arith", "units", "e2e", "story"}) {
    for (int i = 0; i < 20; ++i) {
      prompts.push_back({.id = std::string(task) + "-" + std::to_string(i),
                         .task = task,
                         .text = "",
                         .reference = ""});
    }
  }
  return prompts;
}

std::vector<std::string> ids_of(const std::vector<netsim::Prompt>& prompts) {
  std::vector<std::string> ids;
  for (const netsim::Prompt& prompt : prompts) ids.push_back(prompt.id);
  return ids;
}

TEST(DrawsTest, ShuffleMixesTasks) {
  auto prompts = prompts_by_task();
  shuffle_prompts(prompts);
  for (std::size_t first = 0; first < prompts.size(); first += 20) {
    std::set<std::string> tasks;
    for (std::size_t i = first; i < first + 20; ++i) tasks.insert(prompts[i].task);
    EXPECT_GE(tasks.size(), 5u) << "from prompt " << first;
  }
}

TEST(DrawsTest, ShuffleIsDeterministicPermutation) {
  auto once = prompts_by_task();
  auto again = prompts_by_task();
  shuffle_prompts(once);
  shuffle_prompts(again);
  auto ids = ids_of(once);
  EXPECT_EQ(ids, ids_of(again));
  auto all = ids_of(prompts_by_task());
  std::ranges::sort(ids);
  std::ranges::sort(all);
  EXPECT_EQ(ids, all);
}

// Intervals assume that runs with different seeds are independent.
TEST(DrawsTest, DelaySeedsAreDistinctAcrossDevicesAndSeeds) {
  constexpr std::uint64_t kDevices = 4096;
  constexpr std::uint64_t kSeeds = 8;
  std::unordered_set<std::uint64_t> seeds;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (std::uint64_t device = 0; device < kDevices; ++device) {
      seeds.insert(way_seed(seed, device, WayTo::server));
      seeds.insert(way_seed(seed, device, WayTo::device));
    }
  }
  EXPECT_EQ(seeds.size(), 2 * kDevices * kSeeds);
}

}  // namespace
}  // namespace edgedraft::bench
