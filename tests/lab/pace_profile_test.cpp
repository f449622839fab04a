#include "netsim/pace_profile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::lab {
namespace {

using namespace std::chrono_literals;
using Place = PaceProfile::Place;

class PaceProfileTest : public ::testing::Test {
 protected:
  Result<PaceProfile> read(const std::string& text) {
    return PaceProfile::read(scratch_.write("pace.toml", text));
  }

  test::TemporaryDirectory scratch_;
};

TEST_F(PaceProfileTest, InterpolatesAndExtrapolatesPassTimes) {
  const auto profile = read("[target]\npass_ms = [[2, 10], [4, 20], [8, 30]]\n");
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->target_pass(1), 10ms);
  EXPECT_EQ(profile->target_pass(2), 10ms);
  EXPECT_EQ(profile->target_pass(3), 15ms);
  EXPECT_EQ(profile->target_pass(6), 25ms);
  EXPECT_EQ(profile->target_pass(16), 50ms);
  EXPECT_FALSE(profile->paces_drafter());
  EXPECT_EQ(profile->draft_step("moa-tli0", Place::device), Duration::zero());
}

TEST_F(PaceProfileTest, FindsPaceByDrafterKindOrDefault) {
  const auto profile = read(
      "name = \"p\"\n[draft.step_ms]\n\"moa-tli1\" = 8\nmoa = 4\n[beside_target.step_ms]\n"
      "default = 1\n");
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->draft_step("moa-tli1", Place::device), 8ms);
  EXPECT_EQ(profile->draft_step("moa-tli0", Place::device), 4ms);
  EXPECT_EQ(profile->draft_step("independent", Place::device), Duration::zero());
  EXPECT_EQ(profile->draft_step("independent", Place::beside_target), 1ms);
  EXPECT_FALSE(profile->paces_target());
  EXPECT_EQ(profile->name(), "p");
}

TEST_F(PaceProfileTest, GivesActivationSizePerDrafter) {
  const auto profile = read("[activation_bytes]\n\"moa-tli1\" = 4096\nmoa = 2048\n");
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_TRUE(profile->pads_activations());
  EXPECT_EQ(profile->activation_bytes("moa-tli1"), 4096u);
  EXPECT_EQ(profile->activation_bytes("moa-tli0"), 2048u);
  EXPECT_EQ(profile->activation_bytes("independent"), 0u);
  EXPECT_FALSE(PaceProfile().pads_activations());
}

TEST_F(PaceProfileTest, NamesTableThatLacksDrafter) {
  const auto profile = read(
      "name = \"p\"\n[draft.step_ms]\n\"moa-tli1\" = 8\neagle = 4\n[activation_bytes]\n"
      "\"moa-tli1\" = 4096\n");
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_TRUE(profile->check_paces("moa-tli1", Place::device));
  EXPECT_TRUE(profile->check_paces("eagle-hass", Place::device)) << "paced by its kind";
  EXPECT_TRUE(profile->check_paces("medusa", Place::beside_target)) << "nothing is paced there";
  EXPECT_TRUE(profile->check_pads("moa-tli1"));
  const auto expect_named = [](const Result<void>& checked, const std::string& table,
                               const std::string& drafter) {
    ASSERT_TRUE(fails_with(checked, Errc::usage)) << drafter;
    for (const std::string& word : {std::string("'p'"), table, drafter}) {
      EXPECT_TRUE(contains(checked.error().message, word));
    }
  };
  expect_named(profile->check_paces("moa-tli0", Place::device), "[draft.step_ms]", "moa-tli0");
  expect_named(profile->check_pads("eagle"), "[activation_bytes]", "eagle");
  const auto beside = read("name = \"p\"\n[beside_target.step_ms]\nmoa = 1\n");
  expect_named(beside->check_paces("eagle", Place::beside_target), "[beside_target.step_ms]",
               "eagle");
  EXPECT_TRUE(read("[activation_bytes]\ndefault = 64\n")->check_pads("medusa"));
  EXPECT_TRUE(PaceProfile().check_pads("medusa"));
}

TEST(ShippedPaceProfileTest, PacesAndPadsEveryDrafterWithActivations) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(EDGEDRAFT_DEVICES)) {
    const auto profile = PaceProfile::read(file.path());
    ASSERT_TRUE(profile) << profile.error().message;
    ++count;
    for (const char* drafter :
         {"moa-tli0", "moa-tli1", "moa-tli3", "eagle", "eagle-hass", "medusa"}) {
      EXPECT_TRUE(profile->check_paces(drafter, Place::device)) << file << ' ' << drafter;
      EXPECT_TRUE(profile->check_paces(drafter, Place::beside_target)) << file << ' ' << drafter;
      EXPECT_TRUE(profile->check_pads(drafter)) << file << ' ' << drafter;
    }
    // They read the same features of the target.
    EXPECT_EQ(profile->activation_bytes("medusa"), profile->activation_bytes("eagle")) << file;
  }
  EXPECT_GT(count, 0);
}

TEST_F(PaceProfileTest, RefusesInvalidProfileAndNamesKey) {
  for (const auto& [text, says] : std::initializer_list<std::pair<const char*, const char*>>{
           {"[target", "line 1"},
           {"targets = 1", "targets: unknown key"},
           {"target = 1", "pass_ms"},
           {"[target]\npass_ms = [[1, 10], [1, 20]]", "ascending"},
           {"[target]\npass_ms = [[1, 0]]", "above 0"},
           {"[target]\npass_ms = [[1, nan]]", "above 0"},
           {"[target]\npass_ms = [[1, 2, 3]]", "[rows, milliseconds]"},
           {"[draft]\nstep = 1", "draft.step_ms"},
           {"[draft.step_ms]\nmoa = \"fast\"", "draft.step_ms.moa"},
           {"[draft.step_ms]\nmoa = -1", "draft.step_ms.moa"},
           {"activation_bytes = 3", "lists bytes"},
           {"[activation_bytes]\nmoa = 0", "activation_bytes.moa"},
           {"[activation_bytes]\nmoa = 40000", "activation_bytes.moa"},
           {"[activation_bytes]\nmoa = 2.5", "activation_bytes.moa"}}) {
    EXPECT_TRUE(fails_with(read(text), Errc::usage, says)) << text;
  }
  EXPECT_EQ(PaceProfile::read("/nowhere/at/all.toml").error().code, Errc::io);
}

}  // namespace
}  // namespace edgedraft::lab
