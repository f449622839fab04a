// Answers of a server that does not wait, whatever the device drafts them with.
#include <gtest/gtest.h>

#include "tests/client/generation_rig.h"
#include "tests/client/simulated_device.h"

namespace edgedraft {
namespace {

using namespace std::chrono_literals;
using testing::Listener;
using testing::SimulatedDevice;
using testing::Tokens;

const Tokens kPrompt = {5, 9, 12, 7};

struct Heard {
  Tokens tokens;
  std::uint64_t hints;
};

Heard answer_of(const SimulatedDevice::Options& options) {
  SimulatedDevice device(options);
  Listener listener;
  Duration taken{};
  const Instant begun = device.now();
  device.ask(begun, {.prompt = kPrompt,
                     .terms = {.tokens_max = 150, .sampling = {.temperature = 1.0f, .seed = 2}},
                     .observer = &listener,
                     .on_over = [&] { taken = device.now() - begun; }});
  device.run(60s);
  EXPECT_GT(taken, Duration::zero());
  EXPECT_EQ(std::ranges::count(listener.provenance, Provenance::offline), 0);
  return {.tokens = listener.tokens, .hints = device.hint_count()};
}

TEST(OverlapTest, TreesOfAnyBreadthAreDrafted) {
  const Heard plain = answer_of({.overlap = Overlap::off});
  ASSERT_GT(plain.tokens.size(), 60u);
  for (const bool drafts_well : {false, true}) {
    for (const std::uint32_t breadth : {1u, 9u, 10u, 32u}) {
      SCOPED_TRACE(breadth);
      const Heard heard = answer_of(
          {.tree = {.breadth = breadth, .depth = 5, .nodes = 62}, .drafts_well = drafts_well});
      EXPECT_EQ(heard.tokens, plain.tokens);
      EXPECT_GT(heard.hints, 0u);
    }
  }
}

TEST(OverlapTest, TheServerGoesOnBehindWhatTheDrafterHolds) {
  const Heard plain = answer_of({.overlap = Overlap::off});
  for (const Overlap overlap : {Overlap::off, Overlap::on, Overlap::economy, Overlap::automatic}) {
    for (const std::uint32_t context : {3u, 20u, 60u}) {
      SCOPED_TRACE(context);
      EXPECT_EQ(answer_of({.overlap = overlap, .drafter_context = context}).tokens, plain.tokens);
    }
  }
}

}  // namespace
}  // namespace edgedraft
