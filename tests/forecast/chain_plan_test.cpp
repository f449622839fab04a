#include "shared/forecast/chain_plan.h"

#include <gtest/gtest.h>

#include "shared/base/random.h"

namespace edgedraft {
namespace {

// The table of the paper's section 3.4, for a drafter that costs nothing.
TEST(ChainPlanTest, ThePublishedRowsComeOut) {
  struct Row {
    double alpha;
    std::uint32_t gamma;
    double operations;
    double speed;
  };
  for (const Row& row :
       {Row{0.6, 2, 1.53, 1.96}, Row{0.7, 3, 1.58, 2.53}, Row{0.8, 2, 1.23, 2.44},
        Row{0.8, 5, 1.63, 3.69}, Row{0.9, 2, 1.11, 2.71}, Row{0.9, 10, 1.60, 6.86}}) {
    const ChainPlan plan{.alpha = row.alpha, .gamma = row.gamma};
    EXPECT_NEAR(extra_operations(plan, 0.0), row.operations, 0.005);
    EXPECT_NEAR(speed_up(plan, 0.0), row.speed, 0.005);
  }
}

TEST(ChainPlanTest, TokensAreWhatCoinsOfThatKindBring) {
  Random random(1);
  for (const double alpha : {0.0, 0.35, 0.8, 1.0}) {
    constexpr int kCycles = 40000;
    double tokens = 0;
    for (int i = 0; i < kCycles; ++i) {
      ++tokens;
      for (int k = 0; k < 4 && random.uniform() < alpha; ++k) ++tokens;
    }
    const double expected = expected_tokens({.alpha = alpha, .gamma = 4});
    EXPECT_NEAR(tokens / kCycles, expected, 0.03);
    EXPECT_NEAR(alpha_of(expected, 4), alpha, 1e-9);
  }
}

TEST(ChainPlanTest, LongChainsAreForGoodAndCheapDrafters) {
  EXPECT_EQ(best_gamma(0.5, 0.6, 20), 0u) << "it costs more than it brings";
  EXPECT_LT(best_gamma(0.6, 0.1, 20), best_gamma(0.9, 0.1, 20));
  EXPECT_LT(best_gamma(0.8, 0.2, 20), best_gamma(0.8, 0.02, 20));
}

}  // namespace
}  // namespace edgedraft
