#include "client/engine/drafter_selection.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace edgedraft::client {
namespace {

using std::chrono::milliseconds;

const std::filesystem::path kModels = EDGEDRAFT_MODELS;
const AnswersExpected kAnswers{.server = "cloud:7420", .breadth = 8, .tokens = 96};

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

class DrafterSelectionTest : public ::testing::Test {
 protected:
  // Returns the drafter chosen for the next answer, which then reaches this acceptance.
  std::string next(double acceptance) {
    auto selected = select_drafter(wishes_, BundleUse::draft, &memory_, kAnswers);
    if (!selected) return selected.error().message;
    EXPECT_TRUE(memory_.put(selected->memory_key, knowledge(acceptance)));
    return selected->bundle.path().stem().string() + " " +
           std::string(selected->bundle.drafter_kind());
  }

  test::TemporaryDirectory directory_;
  RunMemory memory_{directory_ / "servers.json"};
  DrafterWishes wishes_{.bundles = {kModels / "moa-tli0.gguf", kModels / "moa-tli1.gguf"},
                        .kind = {},
                        .merge = {},
                        .merges_if_faster = true};
};

TEST_F(DrafterSelectionTest, TriesBundlesWithAndWithoutTablesAndKeepsBest) {
  EXPECT_EQ(next(0.6), "moa-tli0 moa");
  EXPECT_EQ(next(0.7), "moa-tli0 moa+ngram");
  EXPECT_EQ(next(0.9), "moa-tli1 moa");
  EXPECT_EQ(next(0.5), "moa-tli1 moa+ngram");
  EXPECT_EQ(next(0.9), "moa-tli1 moa");
  EXPECT_EQ(next(0.9), "moa-tli1 moa");
}

TEST_F(DrafterSelectionTest, RetriesSlowerDrafterAfterSomeAnswers) {
  wishes_.bundles.resize(1);
  EXPECT_EQ(next(0.9), "moa-tli0 moa");
  EXPECT_EQ(next(0.6), "moa-tli0 moa+ngram");
  std::uint32_t answers = 0;
  while (next(0.9) == "moa-tli0 moa" && answers < 100) ++answers;
  EXPECT_GE(answers, 10u);
  EXPECT_LE(answers, 30u);
}

TEST_F(DrafterSelectionTest, TakesFirstWithoutMemoryOrAlternatives) {
  const auto first = select_drafter(wishes_, BundleUse::draft, nullptr, kAnswers);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->bundle.drafter_kind(), "moa");
  EXPECT_EQ(first->why, "");
  wishes_.bundles.resize(1);
  wishes_.merges_if_faster = false;
  wishes_.merge = {"pld"};
  EXPECT_EQ(next(0.5), "moa-tli0 moa+pld");
  EXPECT_EQ(next(0.5), "moa-tli0 moa+pld");
}

TEST_F(DrafterSelectionTest, RefusesBundlesOfDifferentTargets) {
  wishes_.bundles.push_back(kModels / "no-such.gguf");
  EXPECT_FALSE(select_drafter(wishes_, BundleUse::draft, &memory_, kAnswers));
  // A target's own file names no target.
  wishes_ = {.bundles = {kModels / "moa-tli0.gguf", kModels / "target.gguf"}, .kind = {}};
  const auto selected = select_drafter(wishes_, BundleUse::plain, nullptr, kAnswers);
  ASSERT_FALSE(selected);
  EXPECT_EQ(selected.error().code, Errc::mismatch) << selected.error().message;
}

}  // namespace
}  // namespace edgedraft::client
