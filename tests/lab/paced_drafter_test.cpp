#include "netsim/lab/paced_drafter.h"

#include <gtest/gtest.h>

#include "shared/drafting/network_drafter.h"
#include "tests/support/table_network.h"

namespace edgedraft::lab {
namespace {

using namespace std::chrono_literals;

// The clock advances only while a drafter computes or waits.
class PacedDrafterTest : public ::testing::Test {
 protected:
  // Fixed times per tree and per token.
  class Slow final : public NetworkDrafter {
   public:
    Slow(Instant& now, Duration takes) : now_(now), takes_(takes) {}
    bool grow(TreeGrowth& growth, const GrowthBudget& budget) override {
      now_ += takes_;
      return NetworkDrafter::grow(growth, budget);
    }
    std::span<const float> next_logits() override {
      now_ += takes_;
      return NetworkDrafter::next_logits();
    }

   private:
    DraftNetwork& network() override { return network_; }
    testing::TableNetwork network_{12, testing::hashed_logits(12, 5)};
    Instant& now_;
    Duration takes_;
  };

  PacedDrafter paced(Duration takes, const DraftingPace& pace) {
    PacedDrafter drafter(std::make_unique<Slow>(now_, takes), pace,
                         {.now = [this] { return now_; },
                          .wait_until = [this](Instant end) { now_ = std::max(now_, end); },
                          .on_late = [this] { ++late_; }});
    drafter.append(std::vector<std::uint32_t>{3, 4});
    return drafter;
  }

  Duration elapsed() const { return now_ - Instant{}; }

  Instant now_{};
  int late_ = 0;
};

TEST_F(PacedDrafterTest, TakesOneStepPerTreeLevelAndPerToken) {
  PacedDrafter drafter = paced(2ms, {.step = 10ms});
  drafter.draft({.breadth = 2, .depth = 3, .nodes = 6});
  EXPECT_EQ(elapsed(), 30ms);
  drafter.next_logits();
  EXPECT_EQ(elapsed(), 40ms);
  EXPECT_EQ(late_, 0);
}

TEST_F(PacedDrafterTest, AppliesMinimumTimeToTreesAndTokens) {
  PacedDrafter drafter = paced(2ms, {.least = 50ms, .step = 10ms});
  drafter.draft({.breadth = 2, .depth = 3, .nodes = 6});
  drafter.next_logits();
  EXPECT_EQ(elapsed(), 100ms);
}

TEST_F(PacedDrafterTest, ReportsStepsSlowerThanPace) {
  PacedDrafter drafter = paced(25ms, {.step = 10ms});
  drafter.next_logits();
  EXPECT_EQ(elapsed(), 25ms);
  EXPECT_EQ(late_, 1);
  drafter.draft({.breadth = 2, .depth = 3, .nodes = 6});
  EXPECT_EQ(elapsed(), 55ms);
  EXPECT_EQ(late_, 1);
}

TEST_F(PacedDrafterTest, ProposesSameTreeAsItsDrafter) {
  const TreeShape shape{.breadth = 2, .depth = 3, .nodes = 6};
  PacedDrafter drafter = paced(2ms, {.step = 10ms});
  Slow alone(now_, 2ms);
  alone.append(std::vector<std::uint32_t>{3, 4});
  EXPECT_EQ(drafter.draft(shape), alone.draft(shape));
  EXPECT_EQ(drafter.token_count(), 2u);
  drafter.truncate(1);
  EXPECT_EQ(drafter.token_count(), 1u);
}

}  // namespace
}  // namespace edgedraft::lab
