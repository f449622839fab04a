#include "server/passes/pass_planner.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace edgedraft::server {
namespace {

using Shares = std::vector<std::pair<std::size_t, std::uint32_t>>;

constexpr RowClaim draft(std::uint32_t rows) {
  return {.rows = rows, .divisible = false};
}
constexpr RowClaim prompt(std::uint32_t rows) {
  return {.rows = rows, .divisible = true};
}

class PassPlannerTest : public ::testing::Test {
 protected:
  Shares plan(const std::vector<RowClaim>& claims,
              const std::set<std::size_t>& without_memory = {}) {
    Shares shares;
    for (const RowShare& share :
         planner_.plan(claims, [&](std::size_t i) { return !without_memory.contains(i); })) {
      shares.emplace_back(share.claim, share.rows);
    }
    return shares;
  }

  PassPlanner planner_{{.pass_rows_max = 64, .prompt_rows = 16}};
};

TEST_F(PassPlannerTest, PlansNothingWithoutClaims) {
  EXPECT_TRUE(plan({}).empty());
  EXPECT_TRUE(plan({draft(0), prompt(0)}).empty());
}

TEST_F(PassPlannerTest, DraftsGoFirstAndPromptsShareReservedRows) {
  EXPECT_EQ(plan({prompt(10), draft(20), prompt(30), draft(8)}),
            (Shares{{1, 20}, {3, 8}, {0, 10}, {2, 6}}));
}

TEST_F(PassPlannerTest, PromptsFillPassWithoutDrafts) {
  EXPECT_EQ(plan({prompt(50), prompt(100)}), (Shares{{0, 50}, {1, 14}}));
}

TEST_F(PassPlannerTest, ReservesPromptRowsAfterFirstDraft) {
  // The second draft would fit into the pass, but not beside the prompt.
  EXPECT_EQ(plan({draft(30), draft(30), prompt(100)}), (Shares{{0, 30}, {2, 16}}));
  EXPECT_EQ(plan({draft(30), draft(30)}), (Shares{{0, 30}, {1, 30}}));
}

TEST_F(PassPlannerTest, DraftThatDoesNotFitBlocksLaterOnes) {
  EXPECT_EQ(plan({draft(40), draft(40), draft(1)}), (Shares{{0, 40}}));
}

TEST_F(PassPlannerTest, DraftWithoutMemoryBlocksNoOther) {
  EXPECT_EQ(plan({draft(40), draft(40), draft(1)}, {0}), (Shares{{1, 40}, {2, 1}}));
}

TEST_F(PassPlannerTest, StarvedPromptsPrecedeDraftsInNextPass) {
  EXPECT_EQ(plan({draft(64), prompt(5)}), (Shares{{0, 64}}));
  EXPECT_EQ(plan({draft(64), prompt(5)}), (Shares{{1, 5}}))
      << "the draft does not fit beside the prompt";
  EXPECT_EQ(plan({draft(64)}), (Shares{{0, 64}}));
}

TEST_F(PassPlannerTest, ReservesMemoryOnlyForPlannedDrafts) {
  std::set<std::size_t> asked;
  planner_.plan(std::vector{draft(0), draft(60), prompt(3), draft(60), draft(1)},
                [&](std::size_t i) { return asked.insert(i).second; });
  EXPECT_EQ(asked, (std::set<std::size_t>{1}));
}

}  // namespace
}  // namespace edgedraft::server
