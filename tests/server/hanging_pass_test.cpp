// A pass that never ends, as on a GPU whose driver waits forever.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "tests/server/held_scheduler.h"

namespace edgedraft::server {
namespace {

using namespace std::chrono_literals;
using testing::AwaitedAnswer;

class HangingPassTest : public testing::HeldSchedulerTest {
 protected:
  HangingPassTest() {
    metrics_->health.pass_took(1ms);  // as measured before the first client
    scheduler_.post({.connection_id = 1,
                     .reply = answer_,
                     .session = {},
                     .identity = "someone",
                     .tap = nullptr},
                    wire::Prefill{.round = 1, .tokens = {5, 6}});
    pass_.wait_begun();
  }

  Health::Device device() const { return metrics_->health.view().device; }

  const std::shared_ptr<AwaitedAnswer> answer_ = std::make_shared<AwaitedAnswer>();
};

TEST_F(HangingPassTest, ReportsLostDeviceUntilPassEnds) {
  metrics_->health.look_at_step(Clock::now());
  EXPECT_EQ(device(), Health::Device::works);
  metrics_->health.look_at_step(Clock::now() + 1h);
  EXPECT_EQ(device(), Health::Device::lost);
  EXPECT_NE(metrics_->health.view().reason.find("is still running"), std::string::npos);
  pass_.end();
  EXPECT_FALSE(answer_->wait());
  EXPECT_EQ(device(), Health::Device::works);
}

// The program then exits without waiting for the pass.
TEST_F(HangingPassTest, DoesNotBlockStop) {
  EXPECT_FALSE(scheduler_.stop(1ms));
  pass_.end();
  EXPECT_TRUE(scheduler_.stop(1h));
}

}  // namespace
}  // namespace edgedraft::server
