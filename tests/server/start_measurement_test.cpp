#include "server/load/start_measurement.h"

#include <gtest/gtest.h>

#include "server/passes/pass_loop.h"
#include "tests/protocol/support.h"
#include "tests/server/toy_session.h"
#include "tests/support/heard_replies.h"
#include "tests/support/toy_models.h"

namespace edgedraft::server {
namespace {

using namespace std::chrono_literals;

// A server whose passes take 10 ms plus 1 ms per row; everything else takes no time.
class StartMeasurementTest : public testing::ToyTargetTest<160> {
 protected:
  static Duration pace(std::uint32_t rows) { return 10ms + rows * 1ms; }

  wire::Verdict prompt(PassLoop& loop, std::uint64_t connection,
                       const std::vector<std::uint32_t>& tokens) {
    const auto keeper = std::make_shared<testing::HeardReplies>();
    loop.begin(testing::client_of(connection, keeper), wire::Prefill{.round = 1, .tokens = tokens},
               now_);
    while (!loop.idle()) loop.step();
    return keeper->verdicts.at(0);
  }

  Instant now_{};
  PassLoop loop_{{.decoder = decoder_,
                  .context_count = kContext,
                  .is_end = [](std::uint32_t) { return false; }},
                 {.sessions = {.sessions_max = 64, .kv_bytes_max = 0},
                  .pace = pace,
                  .wait_until = [this](Instant end) { now_ = std::max(now_, end); }},
                 [this] { return now_; }};
};

TEST_F(StartMeasurementTest, ReportsPassTimesAtServerPace) {
  const auto report = loop_.measure_costs(1s);
  ASSERT_GT(report.passes.size(), 1u);
  for (const StartSample& pass : report.passes) EXPECT_EQ(pass.time, pace(pass.rows)) << pass.rows;
  EXPECT_EQ(loop_.memory().pages_held, 0u);
}

TEST_F(StartMeasurementTest, LeavesNoTrace) {
  const wire::Verdict before = prompt(loop_, 1, {5, 6, 7, 8, 9});
  Decoder other(*backend_, toy_.config, toy_.tensors, kContext);
  PassLoop measured(
      {.decoder = other, .context_count = kContext, .is_end = [](std::uint32_t) { return false; }},
      {.sessions = {.sessions_max = 64, .kv_bytes_max = 0}}, [this] { return now_; });
  measured.measure_costs(1s);
  EXPECT_EQ(measured.memory().pages_held, 0u);
  EXPECT_EQ(measured.count().passes, 0u);
  EXPECT_EQ(prompt(measured, 1, {5, 6, 7, 8, 9}).next, before.next);
}

// Another program preempts every other pass.
TEST_F(StartMeasurementTest, UsesLeastDisturbedPass) {
  KvCache cache = decoder_.make_cache();
  std::uint32_t looks = 0;
  const std::vector<StartSample> passes =
      measure_start_costs(decoder_, cache, {.time_max = 1s, .rows_max = 32, .now = [&] {
                                              return now_ += ++looks % 5 < 3 ? 1ms : 10us;
                                            }});
  ASSERT_EQ(passes.size(), 6u);
  for (const StartSample& pass : passes) EXPECT_EQ(pass.time, 10us) << pass.rows;
}

// On this device each clock reading advances a second.
TEST_F(StartMeasurementTest, GivesUpAfterTimeLimit) {
  KvCache cache = decoder_.make_cache();
  std::uint32_t looks = 0;
  const std::vector<StartSample> passes = measure_start_costs(
      decoder_, cache,
      {.time_max = 3s, .rows_max = 256, .now = [&] { return now_ += 1s * ++looks; }});
  EXPECT_TRUE(passes.empty());
  EXPECT_LE(looks, 5u);
  EXPECT_EQ(cache.length(), 0u);
}

}  // namespace
}  // namespace edgedraft::server
