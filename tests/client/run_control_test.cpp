#include "client/control/run_control.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace edgedraft {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// The paper's target and drafter behind a link.
struct World {
  double acceptance = 0.8;
  Duration round_trip = milliseconds(31);
  Duration pass = microseconds(30'300);
  Duration row = microseconds(600);
  Duration step = milliseconds(4);
};

RunControl knowing(const World& world) {
  RunControl control({});
  control.observe_link(world.round_trip);
  for (std::uint32_t i = 0; i < 100; ++i) {
    const std::uint32_t rows = 1 + i % 8;
    control.observe_pass(rows, world.pass + (rows - 1) * world.row);
    control.observe_step(rows, world.step);
    const bool first = i < 100 * world.acceptance;
    control.observe_rank(first ? 0 : i % 2 == 0 ? 1 : 100, 8);
  }
  return control;
}

RunControl::Decision decided(const World& world, bool on_battery = false) {
  return knowing(world).decide(8, 96, on_battery);
}

TEST(RunControlTest, DraftsWithoutKnowledgeAndAsWideAsItMay) {
  RunControl control({});
  const auto decision = control.decide(8, 96, false);
  EXPECT_EQ(decision.kind, RunKind::overlap);
  EXPECT_EQ(decision.breadth, 8u);
  EXPECT_EQ(decision.tokens_per_second, 0.0) << "nothing is predicted from nothing";
  EXPECT_EQ(control.why(), "not measured yet");
}

TEST(RunControlTest, EconomisesWhereThatCostsNoSpeed) {
  EXPECT_EQ(decided({.round_trip = microseconds(500)}).kind, RunKind::economy);
  const auto far = decided({.round_trip = milliseconds(147)});
  EXPECT_EQ(far.kind, RunKind::overlap) << "hints take longer than passes";
  EXPECT_GT(far.tokens_per_second, 1000 / 30.3);
}

TEST(RunControlTest, StreamsWhereDraftsBringNothing) {
  const auto decision = decided({.acceptance = 0.0, .round_trip = milliseconds(300)});
  EXPECT_EQ(decision.kind, RunKind::stream);
  EXPECT_FALSE(decision.drafts());
  EXPECT_NEAR(decision.tokens_per_second, 1000 / 30.3, 1.0);
  // A drafter that takes ten passes a token comes too late.
  EXPECT_EQ(decided({.step = milliseconds(300)}).kind, RunKind::stream);
}

TEST(RunControlTest, GrowsAChainWhereAWideStepCostsTooMuch) {
  RunControl control = knowing({.round_trip = milliseconds(60)});
  RunControl dear = control;
  for (int i = 0; i < 60; ++i) {
    dear.observe_step(1, milliseconds(4));
    dear.observe_step(8, milliseconds(120));
  }
  EXPECT_EQ(control.decide(8, 96, false).breadth, 8u);
  EXPECT_EQ(dear.decide(8, 96, false).breadth, 1u);
}

// A chain tries one token a place, and says nothing of the second.
TEST(RunControlTest, ChainsDoNotUnlearnWhatATreeBrings) {
  RunControl control = knowing({.acceptance = 0.7});
  const auto wide = [&] { return control.try_drafting(8, 96, false).tokens_per_second; };
  const double before = wide();
  const double second = control.known().right[1] / control.known().tried;
  for (std::uint32_t i = 0; i < 400; ++i) control.observe_rank(i % 10 < 7 ? 0 : 1, 1);
  EXPECT_NEAR(wide(), before, 0.08 * before);
  EXPECT_NEAR(control.known().right[1] / control.known().tried, second, 0.1 * second);
  // What they do tell: one that is right less often is worth less.
  for (std::uint32_t i = 0; i < 1600; ++i) control.observe_rank(i % 10 < 3 ? 0 : 1, 1);
  EXPECT_NEAR(control.known().right[0] / control.known().tried, 0.3, 0.05);
  EXPECT_LT(wide(), 0.9 * before);
}

// A drafter that has nothing else to propose would have nothing in a wider tree.
TEST(RunControlTest, AMissOfAllThatThereIsIsNoneOfTheRanks) {
  RunControl control({});
  for (int i = 0; i < 100; ++i) control.observe_rank(100, 8);
  EXPECT_EQ(control.known().tried, 100.0);
  for (const double right : control.known().right) EXPECT_EQ(right, 0.0);
}

TEST(RunControlTest, OnBatteryDraftsOnlyWhatIsLikelyAndPays) {
  const World modest{.acceptance = 0.5, .round_trip = milliseconds(70)};
  EXPECT_NE(decided(modest).kind, RunKind::stream);
  EXPECT_EQ(decided(modest, true).kind, RunKind::stream);
  const World good{.acceptance = 0.9};
  EXPECT_NE(decided(good, true).kind, RunKind::stream);
  EXPECT_GT(decided(good, true).floor, 5 * decided(good).floor);
}

TEST(RunControlTest, APredictionThatDoesNotComeTrueIsBelievedLess) {
  RunControl control = knowing({});
  auto decision = control.decide(8, 96, false);
  const double first = decision.tokens_per_second;
  EXPECT_NE(decision.kind, RunKind::stream);
  // Something that the model does not know of makes drafting half as fast as a stream.
  int answers = 0;
  while (decision.kind != RunKind::stream) {
    ASSERT_LT(++answers, 10) << control.why();
    control.observe_run(decision, 50, std::chrono::seconds(3));
    decision = control.decide(8, 96, false);
  }
  EXPECT_GT(first, 1000 / 30.3);
  EXPECT_NEAR(decision.tokens_per_second, 1000 / 30.3, 1.0)
      << "what drafting brings says nothing of streams";
}

double came_by_predicted(const RunControl& control, RunKind kind) {
  return control.known().came_by_predicted[static_cast<std::size_t>(kind)];
}

// So many tokens a second.
void observe_rate(RunControl& control, const RunControl::Decision& done, double rate) {
  const std::chrono::duration<double> taken(50 / rate);
  control.observe_run(done, 50, std::chrono::duration_cast<Duration>(taken));
}

// However many stretches pass before the next decision.
TEST(RunControlTest, WhatComesIsHeldAgainstTheDecisionThatPredictedIt) {
  RunControl control = knowing({});
  const auto decision = control.decide(8, 96, false);
  for (int i = 0; i < 20; ++i) observe_rate(control, decision, 0.5 * decision.tokens_per_second);
  EXPECT_NEAR(came_by_predicted(control, decision.kind), 0.5, 0.01);
}

TEST(RunControlTest, ATryBringsBackAWayThatWasBelievedTooLittle) {
  RunControl control = knowing({});
  auto decision = control.decide(8, 96, false);
  for (int answers = 0; decision.drafts(); ++answers) {
    ASSERT_LT(answers, 10) << control.why();
    observe_rate(control, decision, 17.0);
    decision = control.decide(8, 96, false);
  }
  // What stood in drafting's way is gone, and no stream will ever tell.
  for (int i = 0; i < 100; ++i) observe_rate(control, decision, decision.tokens_per_second);
  ASSERT_FALSE(control.decide(8, 96, false).drafts());
  const double believed = control.try_drafting(8, 96, false).correction;
  int tries = 0;
  while (!control.decide(8, 96, false).drafts()) {
    ASSERT_LT(++tries, 10) << control.why();
    const auto tried = control.try_drafting(8, 96, false);
    ASSERT_EQ(tried.kind, RunKind::overlap);
    ASSERT_GT(tried.tokens_per_second, 0.0);
    EXPECT_LT(tried.correction, 1.0);
    observe_rate(control, tried, tried.tokens_per_second / tried.correction);
  }
  EXPECT_GT(came_by_predicted(control, RunKind::overlap), believed);
}

TEST(RunControlTest, DraftingIsTriedBehindEightStreamedAnswers) {
  RunControl control({});
  for (int i = 0; i < 8; ++i) {
    EXPECT_FALSE(control.is_to_try());
    control.observe_answer(/*drafts=*/false);
  }
  EXPECT_TRUE(control.is_to_try());
  EXPECT_TRUE(RunControl(control.known()).is_to_try()) << "whichever program writes the next one";
  control.observe_answer(/*drafts=*/true);
  EXPECT_FALSE(control.is_to_try());
}

TEST(RunControlTest, ATryOnBatteryDraftsOnlyWhatIsLikely) {
  RunControl control = knowing({});
  EXPECT_GT(control.try_drafting(8, 96, true).floor, 5 * control.try_drafting(8, 96, false).floor);
}

TEST(RunControlTest, WhatItKnowsIsEnoughForTheNextOne) {
  RunControl first = knowing({});
  RunControl next(first.known());
  EXPECT_EQ(next.decide(8, 96, false), first.decide(8, 96, false));
  EXPECT_EQ(next.why(), first.why());
}

TEST(CostLineTest, FollowsWhatWasMeasured) {
  CostLine line;
  EXPECT_FALSE(line.known());
  for (int i = 0; i < 50; ++i) line.add(1 + i % 16, 0.030 + 0.001 * (i % 16));
  EXPECT_NEAR(line.at(1), 0.030, 1e-3);
  EXPECT_NEAR(line.at(16), 0.045, 1e-3);
  EXPECT_NEAR(line.at(32), 0.061, 3e-3);
  for (int i = 0; i < 300; ++i) line.add(1 + i % 16, 0.060);
  EXPECT_NEAR(line.at(1), 0.060, 2e-3) << "the latest counts";
}

TEST(CostLineTest, OneWidthTellsLittleOfOthers) {
  CostLine line;
  line.add(1, 0.030);
  EXPECT_DOUBLE_EQ(line.at(1), 0.030);
  EXPECT_GT(line.at(9), 0.030);
  EXPECT_LT(line.at(9), 0.040);
}

TEST(CostLineTest, NeverCostsNothing) {
  CostLine line;
  for (int i = 0; i < 10; ++i) {
    line.add(1, 0.001);
    line.add(10, 0.020);
  }
  EXPECT_GT(line.at(0), 0.0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(CostLine({nan, 1, 1, 1, 1}).known());
  EXPECT_FALSE(CostLine({1, -1, 1, 1, 1}).known());
  EXPECT_FALSE(CostLine({1e300, 1, 1, 1, 1}).known());
}

}  // namespace
}  // namespace edgedraft
