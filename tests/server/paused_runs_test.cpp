// A client without credit, or one that does not read, pauses its run: that time does not count as
// the server's.
#include <gtest/gtest.h>

#include "server/metrics/pages.h"
#include "tests/server/run_rig.h"
#include "tests/support/metrics_reading.h"

namespace edgedraft::server {
namespace {

constexpr std::uint32_t kSomeCredit = 10;

class PausedRunsTest : public RunTest {
 protected:
  // A run whose credit was used up an hour ago.
  HintingClient& paused_for_long() {
    HintingClient& client = start_run(prompt_, {.credit = kSomeCredit});
    run_until_idle();
    EXPECT_TRUE(client.listen());
    EXPECT_EQ(client.text().size(), kSomeCredit);
    now_ += 1h;
    return client;
  }

  double waiting() {
    return testing::read_metrics(render_metrics(*metrics_, {}, "1"))["num_requests_waiting"];
  }
};

TEST_F(PausedRunsTest, LongPauseDoesNotTimeOutRun) {
  open({.wait_max = 1min, .metrics = metrics_});
  HintingClient& client = paused_for_long();
  ASSERT_TRUE(client.send(client.credit(kContext)));
  expect_whole(client, expected_);
}

TEST_F(PausedRunsTest, ExcludesPauseFromQueueTime) {
  for (const Duration wait_max : {Duration(), Duration(1min)}) {
    open({.wait_max = wait_max, .metrics = metrics_});
    HintingClient& client = paused_for_long();
    client.verdicts.clear();
    ASSERT_TRUE(client.send(client.credit(kSomeCredit + 1)));
    run_until_idle();
    client.listen();
    ASSERT_EQ(client.verdicts.size(), 1u);
    EXPECT_EQ(client.verdicts[0].queue_us, 0u);
  }
  EXPECT_LT(metrics_->queue_time.sum(), 1.0);
}

// The credit arrives while a pass of others runs; from then on the run waits for the server.
TEST_F(PausedRunsTest, CountsQueueTimeAfterPause) {
  HintingClient& client = paused_for_long();
  client.verdicts.clear();
  ASSERT_TRUE(client.send(client.credit(kSomeCredit + 1)));
  now_ += 20ms;
  run_until_idle();
  client.listen();
  ASSERT_EQ(client.verdicts.size(), 1u);
  EXPECT_EQ(client.verdicts[0].queue_us, 20'000u);
}

TEST_F(PausedRunsTest, ExcludesTimeWithoutReaderFromQueueTime) {
  open({.metrics = metrics_});
  RawClient client(*loop_, {.id = 50, .context_count = kContext}, [this] { return now_; });
  ASSERT_TRUE(client.send(wire::Prefill{.tokens = prompt_, .run = {.credit = kPromptCount + 10}}));
  loop_->step();
  loop_->step();
  client.reads(false);
  run_until_idle();
  loop_->step();
  EXPECT_EQ(metrics_->requests_paused.value(), 1u);
  now_ += 1h;
  client.reads(true);
  run_until_idle();
  EXPECT_EQ(client.verdict_count, 10u);
  EXPECT_LT(metrics_->queue_time.sum(), 1.0);
}

// The client has announced hints, so the server waits for them although it is idle.
TEST_F(PausedRunsTest, ReportsHoldSeparatelyFromQueueTime) {
  open({.metrics = metrics_});
  HintingClient& client = start_run(prompt_, {.credit = kSomeCredit, .hold = wire::Hold::economy});
  int holds = 0;
  Duration held{};
  for (int i = 0; i < 20; ++i) {
    loop_->step();
    if (!loop_->due()) continue;
    ++holds;
    held += *loop_->due() - now_;
    metrics_->requests_open.set(loop_->active_count());
    EXPECT_EQ(waiting(), 0.0);
    now_ = *loop_->due();
  }
  EXPECT_GE(holds, 3);
  client.listen();
  ASSERT_EQ(client.text().size(), kSomeCredit);
  std::chrono::microseconds told{};
  for (const wire::Verdict& verdict : client.verdicts) {
    EXPECT_EQ(verdict.queue_us, 0u);
    told += std::chrono::microseconds(verdict.held_us);
  }
  EXPECT_EQ(told, held) << "otherwise clients attribute the time to the link";
  EXPECT_LT(metrics_->queue_time.sum(), 0.001);
}

// After that it waits for its turn while a pass of others may run.
TEST_F(PausedRunsTest, CountsQueueTimeAfterHints) {
  open({.metrics = metrics_});
  HintingClient& client = start_run(prompt_, {.credit = kSomeCredit, .hold = wire::Hold::economy});
  loop_->step();
  loop_->step();
  ASSERT_TRUE(client.listen());
  ASSERT_TRUE(loop_->idle());
  now_ += 100ms;
  ASSERT_TRUE(client.send(client.chain({5})));
  now_ += 20ms;
  loop_->step();
  client.listen();
  ASSERT_EQ(client.verdicts.size(), 2u);
  EXPECT_EQ(client.verdicts[1].held_us, 100'000u);
  EXPECT_EQ(client.verdicts[1].queue_us, 20'000u);
}

// A held run is not ready, and the end of its hold was unknown when the server went to sleep.
TEST_F(PausedRunsTest, HoldsForHintsOnlyWhileClientReads) {
  open({.metrics = metrics_});
  HintingClient& client = start_run(prompt_, {.credit = kSomeCredit, .hold = wire::Hold::economy});
  loop_->step();
  client.raw().reads(false);
  loop_->step();
  ASSERT_TRUE(loop_->idle());
  ASSERT_FALSE(loop_->due()) << "the loop sleeps until woken";
  client.raw().reads(true);
  EXPECT_FALSE(loop_->idle());
  loop_->step();
  EXPECT_TRUE(loop_->due()) << "the run waits for hints again";
}

// Otherwise the metrics would suggest too few machines.
TEST_F(PausedRunsTest, AreNotCountedAsWaiting) {
  open({.metrics = metrics_});
  HintingClient& client = paused_for_long();
  metrics_->requests_open.set(loop_->active_count());
  EXPECT_EQ(metrics_->requests_open.value(), 1u);
  EXPECT_EQ(waiting(), 0.0);
  ASSERT_TRUE(client.send(client.credit(kContext)));
  loop_->step();
  EXPECT_EQ(waiting(), 1.0) << "the run waits for its next pass";
}

}  // namespace
}  // namespace edgedraft::server
