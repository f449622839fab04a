#include "client/engine/turn.h"

#include <gtest/gtest.h>

namespace edgedraft::client {
namespace {

using namespace std::chrono_literals;

constexpr Instant kBegin{1h};

std::optional<Instant> step(Duration after) {
  return kBegin + after;
}

TEST(TurnTest, IsDueOnAnyEventWithoutSteps) {
  Turn turn;
  EXPECT_FALSE(turn.is_due(kBegin, {}));
  EXPECT_EQ(turn.next(kBegin, {}), Instant::max());
  turn.ordered = turn.busy = true;
  turn.wait_end = kBegin + 10ms;
  EXPECT_TRUE(turn.is_due(kBegin, {}));
  turn.ordered = false;
  EXPECT_FALSE(turn.is_due(kBegin, {}));
  EXPECT_EQ(turn.next(kBegin, {}), kBegin + 10ms);
  EXPECT_TRUE(turn.is_due(kBegin + 10ms, {}));
  turn.woken = true;
  EXPECT_TRUE(turn.is_due(kBegin, {}));
  turn.woken = false;
  turn.cancelled = true;
  EXPECT_TRUE(turn.is_due(kBegin, {}));
}

// When the thread is free within a step depends on private text.
TEST(TurnTest, IsIndependentOfTimeWithinStep) {
  for (const Duration late : {0ms, 1ms, 19ms}) {
    const Instant now = kBegin + 20ms + late;
    Turn turn{.busy = true, .wait_end = kBegin + 19ms};
    EXPECT_TRUE(turn.is_due(now, step(20ms)));
    turn.wait_end = kBegin + 20ms + 1us;
    EXPECT_FALSE(turn.is_due(now, step(20ms)));
    EXPECT_TRUE(turn.is_due(now + 20ms, step(40ms)));
    turn = {
        .busy = true, .woken = true, .woken_at = kBegin + 20ms + 1us, .wait_end = Instant::max()};
    EXPECT_FALSE(turn.is_due(now, step(20ms))) << "the wake-up belongs to the next step";
    EXPECT_TRUE(turn.is_due(now + 20ms, step(40ms)));
    // The previous order's wait has no effect.
    turn = {.busy = true, .ordered = true, .asked = kBegin + 20ms + 1us, .wait_end = kBegin};
    EXPECT_FALSE(turn.is_due(now, step(20ms)));
    EXPECT_TRUE(turn.is_due(now + 20ms, step(40ms)));
    EXPECT_EQ(turn.seen_at(now, step(20ms)), kBegin + 20ms);
  }
}

TEST(TurnTest, IsDueOncePerStep) {
  Turn turn{.busy = true, .woken = true, .wait_end = kBegin};
  EXPECT_TRUE(turn.is_due(kBegin + 21ms, step(20ms)));
  turn.last = kBegin + 20ms;
  EXPECT_FALSE(turn.is_due(kBegin + 22ms, step(20ms)));
  EXPECT_EQ(turn.next(kBegin + 22ms, step(20ms)), kBegin + 40ms);
  EXPECT_TRUE(turn.is_due(kBegin + 40ms, step(40ms)));
}

TEST(TurnTest, PrivateTurnsIgnoreSteps) {
  const Turn turn{
      .busy = true, .wait_end = kBegin + 25ms, .is_private = true, .last = kBegin + 24ms};
  EXPECT_TRUE(turn.is_due(kBegin + 25ms, step(20ms)));
  EXPECT_EQ(turn.next(kBegin, step(0ms)), kBegin + 25ms);
  EXPECT_EQ(turn.seen_at(kBegin + 25ms, step(20ms)), kBegin + 25ms);
}

}  // namespace
}  // namespace edgedraft::client
