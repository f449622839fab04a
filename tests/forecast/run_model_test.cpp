#include "shared/forecast/run_model.h"

#include <gtest/gtest.h>

#include "shared/base/rank_law.h"

namespace edgedraft {
namespace {

constexpr double kPass = 0.030;
constexpr double kRow = 0.0006;
constexpr double kStep = 0.004;

RunModel model(double acceptance, double round_trip) {
  const auto half = [round_trip](double, std::uint32_t = 0) { return round_trip / 2; };
  return {.up = half,
          .down = half,
          .pass = [](std::uint32_t rows) { return kPass + kRow * (rows - 1); },
          .step = kStep,
          .ranks = rank_law(acceptance),
          .prompt_rows = 1};
}

RunForecast of(const RunModel& m, RunKind kind, std::uint32_t answers = 30) {
  return forecast(m, kind, 96, answers, 1);
}

TEST(RunModelTest, AStreamIsItsPassesAndTheLinkOnce) {
  const RunForecast stream = of(model(0.5, 0.100), RunKind::stream);
  EXPECT_NEAR(96 * stream.seconds, 0.100 + 96 * kPass, 1e-9);
  EXPECT_NEAR(stream.passes, 95.0 / 96, 1e-12) << "the prompt's pass has brought the first token";
  EXPECT_EQ(stream.rows, stream.passes);
  EXPECT_EQ(stream.steps, 0.0);
}

TEST(RunModelTest, ACycleIsItsStepsTheLinkAndAPass) {
  RunModel m = model(1.0, 0.050);
  m.shape = {.breadth = 1, .depth = 4, .nodes = 4};
  // The first token, then 19 cycles that bring five each.
  const RunForecast cycles = of(m, RunKind::sequential);
  EXPECT_NEAR(96 * cycles.seconds, 0.050 + kPass + 19 * (4 * kStep + 0.050 + kPass + 4 * kRow),
              1e-9);
  EXPECT_NEAR(96 * cycles.passes, 19, 1e-9);
  EXPECT_NEAR(96 * cycles.rows, 19 * 5, 1e-9);
}

TEST(RunModelTest, ADrafterThatIsNeverRightCostsAnOverlapNearlyNothing) {
  RunModel m = model(0.0, 0.100);
  m.ranks = {0.0};
  const double stream = of(m, RunKind::stream).seconds;
  EXPECT_NEAR(of(m, RunKind::overlap).seconds, stream, 1e-9);
}

TEST(RunModelTest, OverlapIsNoSlowerThanEitherAndALinkMattersLess) {
  for (const double round_trip : {0.0005, 0.017, 0.031, 0.054, 0.147}) {
    for (const double acceptance : {0.5, 0.7, 0.9}) {
      RunModel m = model(acceptance, round_trip);
      const double stream = of(m, RunKind::stream).seconds;
      const double overlap = of(m, RunKind::overlap).seconds;
      double sequential = 1.0;
      for (const std::uint32_t length : {1u, 2u, 4u, 8u, 16u}) {
        m.shape = {.breadth = 1, .depth = length, .nodes = length};
        sequential = std::min(sequential, of(m, RunKind::sequential).seconds);
      }
      EXPECT_LT(overlap, 1.001 * stream) << round_trip << ", " << acceptance;
      EXPECT_LT(overlap, sequential) << round_trip << ", " << acceptance;
    }
  }
}

TEST(RunModelTest, EconomySavesPassesAndTakesTheLinksTime) {
  const RunModel m = model(0.8, 0.147);
  const RunForecast overlap = of(m, RunKind::overlap);
  const RunForecast economy = of(m, RunKind::economy);
  EXPECT_LT(economy.passes, 0.7 * overlap.passes);
  EXPECT_GT(economy.seconds, 1.1 * overlap.seconds);
}

TEST(RunModelTest, ATreeIsWorthItsSiblings) {
  RunModel m = model(0.7, 0.031);
  const double tree = of(m, RunKind::overlap).seconds;
  m.shape.breadth = 1;
  EXPECT_LT(1.1 * tree, of(m, RunKind::overlap).seconds);
}

// Whatever is said of the drafter and however fast it is: the device's tree has an end, too.
TEST(RunModelTest, ATreeOfWhichNothingIsUnlikelyHasAnEnd) {
  RunModel m = model(0.7, 0.031);
  m.ranks.assign(8, 1.0);
  m.step = 1e-6;
  EXPECT_LT(of(m, RunKind::overlap, 1).steps, 256.0);
}

TEST(RunModelTest, ItsSeedDecides) {
  const RunModel m = model(0.7, 0.031);
  const double seconds = forecast(m, RunKind::overlap, 96, 3, 5).seconds;
  EXPECT_EQ(forecast(m, RunKind::overlap, 96, 3, 5).seconds, seconds);
  EXPECT_NE(forecast(m, RunKind::overlap, 96, 3, 6).seconds, seconds);
}

}  // namespace
}  // namespace edgedraft
