#include <gtest/gtest.h>

#include <algorithm>

#include "tests/client/generation_rig.h"
#include "tests/client/simulated_device.h"

namespace edgedraft::client {
namespace {

using namespace std::chrono_literals;
using testing::Listener;
using testing::SimulatedDevice;
using testing::ToyDrafter;

// Three passes of a third of a second each, and a deadline of 400 ms.
TEST(LongPromptTest, WaitsWhileServerReads) {
  SimulatedDevice device({.hold = Hold::none,
                          .drafter = ToyDrafter::none,
                          .resync_wait = 0s,
                          .row_time = 5ms,
                          .pass_rows_max = 65});
  testing::Tokens prompt;
  for (std::uint32_t i = 0; i < 190; ++i) prompt.push_back(3 + i % 7);
  Listener listener;
  device.ask(device.now(), {.prompt = prompt, .terms = {.tokens_max = 5}, .observer = &listener});
  device.run(10s);
  const auto end = device.generation(0).end();
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_GT(device.generation(0).stats().elapsed, 900ms);
  EXPECT_FALSE(listener.tokens.empty());
}

}  // namespace
}  // namespace edgedraft::client
