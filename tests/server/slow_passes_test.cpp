// A server whose passes take seconds still knows how many sessions share them.
#include <gtest/gtest.h>

#include "tests/server/run_rig.h"

namespace edgedraft {
namespace {

class SlowPassesTest : public RunTest {
 protected:
  // The rows that so many sessions were told at last that a draft may have.
  std::uint32_t budget_of(std::uint32_t sessions) {
    open({.pace = [](std::uint32_t rows) { return 1500ms + rows * 500ms; }, .metrics = metrics_});
    loop_->measure_costs(1s, {});
    for (std::uint32_t i = 0; i < sessions; ++i) {
      EXPECT_TRUE(connect().begin(prompt_of(1), {}, {.credit = kPromptCount + 5}));
    }
    run_until_idle();
    for (const auto& client : clients_) {
      EXPECT_TRUE(client->listen());
      EXPECT_EQ(client->verdicts.size(), 5u);
    }
    return clients_.back()->verdicts.back().row_budget;
  }
};

TEST_F(SlowPassesTest, WhoTakesPartInAPassIsCountedHoweverLongItTakes) {
  const std::uint32_t alone = budget_of(1);
  EXPECT_GT(alone, 1u);
  EXPECT_LT(budget_of(16), alone);
}

// Sessions whose clients give no more credit want nothing of passes.
TEST_F(SlowPassesTest, WhoIsPausedIsNotCounted) {
  const std::uint32_t alone = budget_of(1);
  budget_of(16);
  ASSERT_TRUE(loop_->idle());
  now_ += 10s;
  HintingClient& client = *clients_.back();
  client.verdicts.clear();
  ASSERT_TRUE(client.send(client.credit(kPromptCount + 7)));
  run_until_idle();
  EXPECT_TRUE(client.listen());
  ASSERT_EQ(client.verdicts.size(), 2u);
  EXPECT_EQ(client.verdicts.back().row_budget, alone);
}

}  // namespace
}  // namespace edgedraft
