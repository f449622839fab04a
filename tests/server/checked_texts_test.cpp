// Offline texts of devices, checked by the target.
#include <gtest/gtest.h>

#include "tests/server/run_rig.h"

namespace edgedraft::server {
namespace {

constexpr std::uint32_t kGiven = 4;
constexpr std::uint32_t kOffline = 60;

class CheckedTextsTest : public RunTest {
 protected:
  bool check_another() {
    return connect().raw().send(wire::Prefill{.tokens = Tokens(kGiven + kOffline, 7),
                                              .provisional_count = kOffline,
                                              .sampling = {.temperature = 1.0f, .top_p = 0.9f}});
  }
};

// A text may sort the vocabulary for every choice. A pass takes its given rows and 16 more, however
// many remain to be checked.
TEST_F(CheckedTextsTest, LeavesRowsBeyondSearchLimitToOthers) {
  open({.pass_rows_max = 64, .prompt_rows = 16, .metrics = metrics_});
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(check_another());
  HintingClient& asking = start_run(prompt_, {});
  loop_->step();
  EXPECT_EQ(loop_->count().passes, 1u);
  EXPECT_EQ(loop_->count().rows, 2 * (kGiven - 1 + 16) + kPromptCount);
  EXPECT_TRUE(asking.listen());
  EXPECT_EQ(asking.verdicts.size(), 1u);
}

// A pass shared by many such texts does not take longer the more there are.
TEST_F(CheckedTextsTest, SharesSearchLimitAmongChecks) {
  open({.metrics = metrics_});
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(check_another());
  loop_->step();
  EXPECT_EQ(loop_->count().passes, 1u);
  EXPECT_EQ(loop_->count().rows, 8 * (kGiven - 1 + 8));
}

}  // namespace
}  // namespace edgedraft::server
