#include "client/control/run_control.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace edgedraft::client {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// The paper's target and drafter over a link.
struct World {
  double acceptance = 0.8;
  Duration round_trip = milliseconds(31);
  Duration pass = microseconds(30'300);
  Duration row = microseconds(600);
  Duration step = milliseconds(4);
};

constexpr RunControl::Decision kStream{.kind = RunKind::stream};

Duration duration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

void observe_rate(RunControl& control, const RunControl::Decision& done, double rate,
                  std::uint32_t tokens = RunControl::kWindow) {
  control.observe_run(done, tokens, duration(tokens / rate));
}

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
  observe_rate(control, kStream, 1.0 / seconds(world.pass));
  return control;
}

RunControl::Decision decided(const World& world, bool on_battery = false) {
  return knowing(world).decide(8, 96, on_battery);
}

double stream_rate(const World& world) {
  return 1.0 / seconds(world.pass);
}

TEST(RunControlTest, MeasuresStreamFirstThenDraftsAtFullBreadth) {
  RunControl control({});
  const auto first = control.decide(8, 96, false);
  EXPECT_EQ(first.kind, RunKind::stream);
  EXPECT_TRUE(first.may_draft) << "later in the same answer";
  EXPECT_EQ(first.tokens_per_second, 0.0) << "nothing is measured yet";
  observe_rate(control, first, 30.0);
  const auto second = control.decide(8, 96, false);
  EXPECT_EQ(second.kind, RunKind::overlap);
  EXPECT_EQ(second.breadth, 8u);
  EXPECT_EQ(second.tokens_per_second, 0.0);
  EXPECT_EQ(control.why(), "drafting has not been measured yet");
}

TEST(RunControlTest, DraftsFirstIfServerSentPassTimes) {
  RunControl control({});
  control.set_pass_times(std::vector<PassTime>{{1, 30'000}, {8, 34'000}});
  const auto first = control.decide(8, 96, false);
  EXPECT_EQ(first.kind, RunKind::overlap);
  EXPECT_FALSE(control.is_due(RunControl::kWindowMin, milliseconds(500)));
  EXPECT_TRUE(control.is_due(RunControl::kWindowMin, milliseconds(600)))
      << "much slower than 16 passes of one row";
  observe_rate(control, first, 15.0, RunControl::kWindowMin);
  EXPECT_EQ(control.decide(8, 96, false).kind, RunKind::stream);
}

TEST(RunControlTest, StreamRateExcludesPassesBesideDrafts) {
  RunControl control({});
  observe_rate(control, kStream, 16.0);
  for (int i = 0; i < 60; ++i) control.observe_pass(1 + i % 2, milliseconds(96));
  control.observe_link(milliseconds(50));
  for (int i = 0; i < 60; ++i) {
    control.observe_step(1, milliseconds(8));
    control.observe_rank(100, 8);
  }
  EXPECT_EQ(control.fastest(1, 96, false).kind, RunKind::stream)
      << "overlap gives 10 tokens per second";
  EXPECT_NEAR(control.fastest(1, 96, false).tokens_per_second, 16.0, 1e-6);
}

TEST(RunControlTest, ReportsBasisOfDecision) {
  const auto says = [](RunControl& control, const char* text) {
    (void)control.decide(8, 96, false);
    return control.why().find(text) != std::string::npos;
  };
  RunControl control = knowing({});
  EXPECT_TRUE(says(control, "expected, stream 33.0 measured")) << control.why();
  EXPECT_TRUE(says(control, "% of 100,")) << control.why();
  observe_rate(control, {.kind = RunKind::overlap}, 60.0);
  EXPECT_TRUE(says(control, "measured, stream")) << control.why();
}

TEST(RunControlTest, EconomisesIfSpeedIsUnaffected) {
  EXPECT_EQ(decided({.round_trip = microseconds(500)}).kind, RunKind::economy);
  const auto far = decided({.round_trip = milliseconds(147)});
  EXPECT_EQ(far.kind, RunKind::overlap) << "hints take longer than passes";
  EXPECT_GT(far.tokens_per_second, 1000 / 30.3);
}

TEST(RunControlTest, StreamsIfDraftsGainNothing) {
  const auto decision = decided({.acceptance = 0.0, .round_trip = milliseconds(300)});
  EXPECT_EQ(decision.kind, RunKind::stream);
  EXPECT_FALSE(decision.drafts());
  EXPECT_NEAR(decision.tokens_per_second, 1000 / 30.3, 1.0);
  // A drafter that takes ten passes per token is too late.
  EXPECT_EQ(decided({.step = milliseconds(300)}).kind, RunKind::stream);
}

TEST(RunControlTest, GrowsChainIfWideStepsCostTooMuch) {
  RunControl control = knowing({.round_trip = milliseconds(60)});
  RunControl dear = control;
  for (int i = 0; i < 60; ++i) {
    dear.observe_step(1, milliseconds(4));
    dear.observe_step(8, milliseconds(120));
  }
  EXPECT_EQ(control.decide(8, 96, false).breadth, 8u);
  EXPECT_EQ(dear.decide(8, 96, false).breadth, 1u);
}

// A chain tries one token per position, so it shows nothing about the second.
TEST(RunControlTest, ChainsPreserveKnowledgeOfTrees) {
  RunControl control = knowing({.acceptance = 0.7});
  const auto wide = [&] { return control.fastest(8, 96, false).tokens_per_second; };
  const double before = wide();
  const double second = control.known().right[1] / control.known().tried;
  for (std::uint32_t i = 0; i < 400; ++i) control.observe_rank(i % 10 < 7 ? 0 : 1, 1);
  EXPECT_NEAR(wide(), before, 0.08 * before);
  EXPECT_NEAR(control.known().right[1] / control.known().tried, second, 0.1 * second);
  // It does show that a drafter that is right less often is worth less.
  for (std::uint32_t i = 0; i < 1600; ++i) control.observe_rank(i % 10 < 3 ? 0 : 1, 1);
  EXPECT_NEAR(control.known().right[0] / control.known().tried, 0.3, 0.05);
  EXPECT_LT(wide(), 0.9 * before);
}

// A wider tree would not help a drafter that has nothing else to propose.
TEST(RunControlTest, MissOfAllCandidatesCountsForNoRank) {
  RunControl control({});
  for (int i = 0; i < 100; ++i) control.observe_rank(100, 8);
  EXPECT_EQ(control.known().tried, 100.0);
  for (const double right : control.known().right) EXPECT_EQ(right, 0.0);
}

TEST(RunControlTest, OnBatteryDraftsOnlyIfLikelyAndWorthwhile) {
  const World modest{.acceptance = 0.5, .round_trip = milliseconds(70)};
  EXPECT_NE(decided(modest).kind, RunKind::stream);
  EXPECT_EQ(decided(modest, true).kind, RunKind::stream);
  const World good{.acceptance = 0.9};
  EXPECT_NE(decided(good, true).kind, RunKind::stream);
  EXPECT_GT(decided(good, true).floor, 5 * decided(good).floor);
}

TEST(RunControlTest, StopsDraftingMeasuredSlowerThanStream) {
  const World world;
  RunControl control = knowing(world);
  const auto draft = control.decide(8, 96, false);
  ASSERT_TRUE(draft.drafts());
  ASSERT_GT(draft.tokens_per_second, stream_rate(world));
  observe_rate(control, draft, 0.5 * stream_rate(world));
  const auto next = control.decide(8, 96, false);
  EXPECT_EQ(next.kind, RunKind::stream) << control.why();
  EXPECT_NEAR(next.tokens_per_second, stream_rate(world), 1e-6);
}

TEST(RunControlTest, RetriesSlowKindsRarelyAndCloseOnesOften) {
  const World world{.acceptance = 0.5};
  const auto tries = [&](double rate_by_stream) {
    RunControl control = knowing(world);
    int count = 0;
    for (int i = 0; i < 400; ++i) {
      const auto decision = control.decide(1, 96, false);
      count += decision.drafts();
      observe_rate(control, decision,
                   (decision.drafts() ? rate_by_stream : 1.0) * stream_rate(world));
      if (i % 8 == 0) control.begin_answer();
    }
    return count;
  };
  const int slow = tries(0.5);
  const int close = tries(0.95);
  EXPECT_GT(slow, 2);
  EXPECT_LT(slow, 20) << "at most 0.03 / (1 / 0.5 - 1) of all decisions";
  EXPECT_GT(close, 2 * slow);
  EXPECT_GT(tries(1.5), 350);
}

TEST(RunControlTest, GainsPayForOnlyOneLosingWindow) {
  const World world;
  RunControl control = knowing(world);
  const auto draft = control.decide(8, 96, false);
  for (int i = 0; i < 20; ++i) observe_rate(control, draft, 2.0 * stream_rate(world));
  EXPECT_GT(control.known().balance, 10.0);
  observe_rate(control, draft, 0.5 * stream_rate(world));
  EXPECT_LT(control.known().balance, 0.0);
}

TEST(RunControlTest, RemeasuresStreamWhileDrafting) {
  const World world{.acceptance = 0.9};
  RunControl control = knowing(world);
  int drafted = 0;
  for (auto decision = control.decide(8, 96, false); decision.drafts();
       decision = control.decide(8, 96, false)) {
    ASSERT_LT(++drafted, 200);
    observe_rate(control, decision, 2.0 * stream_rate(world));
  }
  EXPECT_GT(drafted, 20) << "streams take 3 % of the tokens";
}

TEST(RunControlTest, NewAnswerForgetsMostOfOtherPrompts) {
  RunControl control = knowing({});
  for (int i = 0; i < 9; ++i) observe_rate(control, {.kind = RunKind::overlap}, 50.0);
  control.begin_answer();
  const auto& known = control.known();
  EXPECT_EQ(known.rates[static_cast<std::size_t>(RunKind::overlap)].tokens, 16.0);
  EXPECT_NEAR(known.rates[static_cast<std::size_t>(RunKind::overlap)].cost(), 1 / 50.0, 1e-6);
  EXPECT_EQ(known.tried, 64.0);
}

TEST(RunControlTest, EndsSlowWindowEarly) {
  RunControl control({});
  EXPECT_FALSE(control.is_due(15, std::chrono::seconds(9)));
  EXPECT_TRUE(control.is_due(16, milliseconds(1)));
  observe_rate(control, kStream, 20.0);
  EXPECT_FALSE(control.is_due(8, milliseconds(800)));
  EXPECT_TRUE(control.is_due(8, milliseconds(1000)));
  EXPECT_FALSE(control.is_due(7, milliseconds(1000)));
}

TEST(RunControlTest, RestoredKnowledgeGivesSameDecision) {
  RunControl first = knowing({});
  RunControl next(first.known());
  EXPECT_EQ(next.decide(8, 96, false), first.decide(8, 96, false));
  EXPECT_EQ(next.why(), first.why());
}

// 3 ms and 18 ms for all experts, of which each row reads 8 of 128; or the same without experts.
std::vector<PassTime> pass_times(bool has_experts) {
  std::vector<PassTime> times;
  for (const std::uint32_t rows : {1u, 2u, 4u, 8u, 16u, 32u, 64u}) {
    const double read = has_experts ? 1.0 - std::pow(1.0 - 8.0 / 128.0, rows) : 0.0;
    times.push_back({.rows = rows,
                     .microseconds = static_cast<std::uint32_t>(3000 + 18000 * read + 50 * rows)});
  }
  return times;
}

RunControl::Decision fastest_for(const std::vector<PassTime>& times) {
  RunControl control({});
  control.set_pass_times(times);
  control.observe_link(milliseconds(2));
  for (std::uint32_t i = 0; i < 100; ++i) {
    control.observe_step(8, microseconds(500));
    control.observe_rank(i % 10 < 7 ? 0 : 100, 8);
  }
  return control.fastest(8, 96, false);
}

TEST(RunControlTest, DraftsShortChainsIfRowsReadMoreExperts) {
  const auto dense = fastest_for(pass_times(false));
  EXPECT_TRUE(dense.drafts());
  EXPECT_EQ(dense.breadth, 8u);
  EXPECT_LT(dense.floor, 0.1);
  const auto experts = fastest_for(pass_times(true));
  EXPECT_TRUE(experts.drafts());
  EXPECT_EQ(experts.breadth, 1u);
  // The likeliest token is right in 7 of 10 cases.
  const double length = std::log(experts.floor) / std::log(0.7);
  EXPECT_GE(length, 2.0);
  EXPECT_LT(length, 5.0);
}

TEST(PassCostsTest, CorrectsServerMeasurements) {
  const auto times = pass_times(true);
  PassCosts costs;
  EXPECT_FALSE(costs.known());
  costs.measured(times);
  EXPECT_NEAR(costs.at(8), 1e-6 * times[3].microseconds, 1e-9);
  for (int i = 0; i < 50; ++i) costs.add(8, 0.5e-6 * times[3].microseconds);
  const double corrected = costs.at(8);
  EXPECT_NEAR(corrected, 0.5e-6 * times[3].microseconds, 1e-4);
  costs.measured(times);
  EXPECT_EQ(costs.at(8), corrected) << "a reconnect to the same server keeps corrections";
  costs.measured(pass_times(false));
  EXPECT_NEAR(costs.at(8), 0.0034, 1e-9) << "another server";
}

TEST(CostLineTest, FollowsMeasurements) {
  CostLine line;
  EXPECT_FALSE(line.known());
  for (int i = 0; i < 50; ++i) line.add(1 + i % 16, 0.030 + 0.001 * (i % 16));
  EXPECT_NEAR(line.at(1), 0.030, 1e-3);
  EXPECT_NEAR(line.at(16), 0.045, 1e-3);
  EXPECT_NEAR(line.at(32), 0.061, 3e-3);
  for (int i = 0; i < 300; ++i) line.add(1 + i % 16, 0.060);
  EXPECT_NEAR(line.at(1), 0.060, 2e-3) << "recent samples dominate";
}

TEST(CostLineTest, ExtrapolatesCautiouslyFromOneWidth) {
  CostLine line;
  line.add(1, 0.030);
  EXPECT_DOUBLE_EQ(line.at(1), 0.030);
  EXPECT_GT(line.at(9), 0.030);
  EXPECT_LT(line.at(9), 0.040);
}

TEST(CostLineTest, CostIsAlwaysPositive) {
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
}  // namespace edgedraft::client
