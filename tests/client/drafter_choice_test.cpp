#include "client/engine/drafter_selection.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace edgedraft::client {
namespace {

using std::chrono::milliseconds;

// The paper's target behind a link of 31 ms, with a drafter of this acceptance.
RunKnowledge knowledge(double acceptance, Duration step = milliseconds(4)) {
  RunControl control({});
  control.observe_link(milliseconds(31));
  for (std::uint32_t i = 0; i < 100; ++i) {
    control.observe_pass(1 + i % 8, milliseconds(30));
    control.observe_step(1 + i % 8, step);
    control.observe_rank(i < 100 * acceptance ? 0 : 100, 8);
  }
  return control.known();
}

DrafterChoice chosen(const std::vector<KnownDrafter>& drafters) {
  return choose_drafter(drafters, 8, 96, false);
}

TEST(DrafterChoiceTest, TriesUnknownDraftersInOrder) {
  EXPECT_EQ(chosen({{.name = "a", .known = {}}, {.name = "b", .known = {}}}).index, 0u);
  const auto second =
      chosen({{.name = "a", .known = knowledge(0.9)}, {.name = "b", .known = RunKnowledge{}}});
  EXPECT_EQ(second.index, 1u);
  EXPECT_EQ(second.why, "b has not been measured yet");
}

TEST(DrafterChoiceTest, PicksFastestAndReportsAllSpeeds) {
  const auto choice =
      chosen({{.name = "a", .known = knowledge(0.6)}, {.name = "b", .known = knowledge(0.9)}});
  EXPECT_EQ(choice.index, 1u);
  EXPECT_TRUE(choice.why.starts_with("tokens/s: a ")) << choice.why;
  EXPECT_NE(choice.why.find(", b "), std::string::npos) << choice.why;
  // A better drafter that takes ten times as long loses.
  EXPECT_EQ(chosen({{.name = "a", .known = knowledge(0.7)},
                    {.name = "b", .known = knowledge(0.8, milliseconds(60))}})
                .index,
            0u);
}

TEST(DrafterChoiceTest, PicksFirstOfEquallyFastDrafters) {
  const auto choice =
      chosen({{.name = "a", .known = knowledge(0.8)},
              {.name = "b", .known = knowledge(0.8, std::chrono::microseconds(3900))}});
  EXPECT_EQ(choice.index, 0u) << choice.why;
}

}  // namespace
}  // namespace edgedraft::client
