#include "shared/forecast/run_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "shared/forecast/rank_probabilities.h"

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
          .ranks = rank_probabilities(acceptance),
          .prompt_rows = 1};
}

constexpr std::uint32_t kTokens = 96;

RunForecast of(const RunModel& m, RunKind kind, std::uint32_t answers = 30) {
  return forecast(m, kind, kTokens, answers, 1);
}

// Mean passes per token of sequential drafts. `reached[k]` is the probability that the first k + 1
// tokens of a draft are right.
double sequential_passes(const std::vector<double>& reached) {
  // Indexed by the tokens left after the prompt's pass.
  std::vector<double> passes(kTokens, 0.0);
  for (std::size_t left = 1; left < kTokens; ++left) {
    const std::size_t depth = std::min(reached.size(), left);
    double at_least = 1.0;
    passes[left] = 1.0;
    for (std::size_t accepted = 0; accepted < depth; ++accepted) {
      passes[left] += (at_least - reached[accepted]) * passes[left - accepted - 1];
      at_least = reached[accepted];
    }
    if (depth < left) passes[left] += at_least * passes[left - depth - 1];
  }
  return passes[kTokens - 1] / kTokens;
}

TEST(RunModelTest, StreamTakesItsPassesAndOneRoundTrip) {
  const RunForecast stream = of(model(0.5, 0.100), RunKind::stream);
  EXPECT_NEAR(96 * stream.seconds, 0.100 + 96 * kPass, 1e-9);
  EXPECT_NEAR(stream.passes, 95.0 / 96, 1e-12) << "the prompt's pass brings the first token";
  EXPECT_EQ(stream.rows, stream.passes);
  EXPECT_EQ(stream.steps, 0.0);
}

TEST(RunModelTest, CycleTakesStepsRoundTripAndPass) {
  RunModel m = model(1.0, 0.050);
  m.shape = {.breadth = 1, .depth = 4, .nodes = 4};
  // The first token, then 19 cycles of five tokens each.
  const RunForecast cycles = of(m, RunKind::sequential);
  EXPECT_NEAR(96 * cycles.seconds, 0.050 + kPass + 19 * (4 * kStep + 0.050 + kPass + 4 * kRow),
              1e-9);
  EXPECT_NEAR(96 * cycles.passes, 19, 1e-9);
  EXPECT_NEAR(96 * cycles.rows, 19 * 5, 1e-9);
}

TEST(RunModelTest, OverlapWithUselessDrafterMatchesStream) {
  RunModel m = model(0.0, 0.100);
  m.ranks = {0.0};
  const double stream = of(m, RunKind::stream).seconds;
  EXPECT_NEAR(of(m, RunKind::overlap).seconds, stream, 1e-9);
}

TEST(RunModelTest, OverlapIsAsFastAsStreamAndSequential) {
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

TEST(RunModelTest, EconomyTradesTimeForFewerPasses) {
  const RunModel m = model(0.8, 0.147);
  const RunForecast overlap = of(m, RunKind::overlap);
  const RunForecast economy = of(m, RunKind::economy);
  EXPECT_LT(economy.passes, 0.7 * overlap.passes);
  EXPECT_GT(economy.seconds, 1.1 * overlap.seconds);
}

TEST(RunModelTest, SiblingsSpeedUpTree) {
  RunModel m = model(0.7, 0.031);
  const double tree = of(m, RunKind::overlap).seconds;
  m.shape.breadth = 1;
  EXPECT_LT(1.1 * tree, of(m, RunKind::overlap).seconds);
}

TEST(RunModelTest, SequentialTimeIsSumOfParts) {
  for (const double acceptance : {0.3, 0.8}) {
    for (const std::uint32_t breadth : {1u, 4u}) {
      RunModel m = model(acceptance, 0.0);
      m.up = [](double) { return 0.03; };
      m.down = [](double, std::uint32_t) { return 0.07; };
      m.shape = {.breadth = breadth, .depth = 5, .nodes = 12};
      m.prompt_rows = 11;
      m.setup = 0.5;
      m.rows_delay = 0.2;
      const RunForecast f = of(m, RunKind::sequential);
      const double passes = kTokens * f.passes;
      EXPECT_NEAR(kTokens * f.seconds,
                  0.5 + 0.2 + m.pass(11) + (1 + passes) * (0.03 + 0.07) +
                      kTokens * f.steps * kStep + passes * kPass +
                      kRow * (kTokens * f.rows - passes),
                  1e-9)
          << acceptance << ", " << breadth;
    }
  }
}

TEST(RunModelTest, SequentialPassesFollowFromAcceptance) {
  RunModel m = model(0.5, 0.010);
  const auto expect_passes = [&](const std::vector<double>& reached, const char* what) {
    const double expected = sequential_passes(reached);
    EXPECT_NEAR(of(m, RunKind::sequential, 200).passes, expected, 0.02 * expected) << what;
  };
  m.ranks = {0.6};
  m.shape = {.breadth = 1, .depth = 3, .nodes = 3};
  expect_passes({0.6, 0.36, 0.216}, "chain");
  m.ranks = {0.5, 0.3};
  m.shape = {.breadth = 1, .depth = 1, .nodes = 1};
  expect_passes({0.5}, "one node");
  m.shape = {.breadth = 2, .depth = 1, .nodes = 2};
  expect_passes({0.8}, "two siblings");
  m.shape = {.breadth = 2, .depth = 2, .nodes = 6};
  expect_passes({0.8, 0.64}, "full tree");
  // Both siblings, and the likelier child of the likelier one.
  m.shape = {.breadth = 2, .depth = 2, .nodes = 3};
  expect_passes({0.8, 0.25}, "likeliest three of six");
}

TEST(RunModelTest, SequentialUselessDraftCostsStepsRowsAndRoundTrip) {
  RunModel m = model(0.0, 0.0);
  m.ranks = {1e-9};
  m.shape = {.breadth = 1, .depth = 3, .nodes = 3};
  constexpr std::uint32_t kCycles = kTokens - 1;
  // Three per cycle, but no draft goes beyond the answer's end.
  constexpr std::uint32_t kDrafted = 3 * (kCycles - 2) + 2 + 1;
  for (const double round_trip : {0.0, 0.100}) {
    m.up = [=](double) { return round_trip; };
    m.down = [](double, std::uint32_t) { return 0.0; };
    const RunForecast f = of(m, RunKind::sequential);
    EXPECT_NEAR(kTokens * f.steps, kDrafted, 1e-9);
    EXPECT_NEAR(kTokens * f.rows, kCycles + kDrafted, 1e-9);
    EXPECT_NEAR(kTokens * f.seconds,
                round_trip + kPass + kCycles * (round_trip + kPass) + kDrafted * (kStep + kRow),
                1e-9);
  }
}

TEST(RunModelTest, OverlapTakesAtLeastItsPassesAndOneRoundTrip) {
  for (const RunKind kind : {RunKind::overlap, RunKind::economy}) {
    for (const double acceptance : {0.5, 0.9}) {
      const RunModel m = model(acceptance, 0.050);
      const RunForecast f = of(m, kind);
      const double passing = kPass * f.passes + kRow * (f.rows - f.passes);
      EXPECT_GE(kTokens * f.seconds, 0.050 + kPass + kTokens * passing - 1e-9);
      EXPECT_LT(f.passes, 0.9) << "hints bring tokens";
    }
  }
}

TEST(RunModelTest, LateHintsFallBackToStream) {
  RunModel slow = model(0.8, 0.0);
  slow.step = 0.5;
  EXPECT_NEAR(of(slow, RunKind::overlap).seconds, of(slow, RunKind::stream).seconds, 1e-9)
      << "drafter slower than passes";
  // The first hints arrive after the last pass.
  const RunModel far = model(0.8, 10.0);
  EXPECT_NEAR(of(far, RunKind::overlap).seconds, of(far, RunKind::stream).seconds, 1e-9)
      << "long link";
}

TEST(RunModelTest, IgnoresHintsIfRowsCostWholePass) {
  RunModel m = model(0.9, 0.0);
  m.pass = [](std::uint32_t rows) { return kPass * rows; };
  const RunForecast overlap = of(m, RunKind::overlap);
  EXPECT_GT(overlap.steps, 0.0);
  EXPECT_EQ(overlap.rows, overlap.passes);
  EXPECT_NEAR(overlap.seconds, of(m, RunKind::stream).seconds, 1e-9);
}

TEST(RunModelTest, TakesMoreRowsIfTheyAreCheaper) {
  double before = 0.0;
  for (const double row : {0.016, 0.004, 0.001, 0.0}) {
    RunModel m = model(0.7, 0.010);
    m.pass = [row](std::uint32_t rows) { return kPass + row * (rows - 1); };
    const RunForecast overlap = of(m, RunKind::overlap);
    EXPECT_GT(overlap.rows / overlap.passes, before) << row;
    before = overlap.rows / overlap.passes;
  }
}

// A drafter that is always right and almost free, without a link. A pass that starts with no hints
// left has only its root. Meanwhile the device drafts to its depth limit, and that pass decides the
// first of these tokens. Once the server knows how soon hints arrive, it waits one step for the
// hint that the device adds after the verdict.
TEST(RunModelTest, PerfectHintsFillEverySecondPassToTheDepthLimit) {
  constexpr std::uint32_t kDepth = 32;
  constexpr std::uint32_t kCount = 1 + 2 * (1 + kDepth);
  RunModel m = model(1.0, 0.0);
  m.ranks = {1.0};
  m.step = 1e-7;
  const RunForecast f = forecast(m, RunKind::overlap, kCount, 1, 1);
  constexpr std::uint32_t kHints = (kDepth - 1) + kDepth;
  EXPECT_NEAR(kCount * f.passes, 4, 1e-9);
  EXPECT_NEAR(kCount * f.rows, 4 + kHints, 1e-9);
  EXPECT_NEAR(kCount * f.seconds, kPass + 4 * kPass + kHints * kRow + m.step, 1e-9);
}

TEST(RunModelTest, TimeGrowsWithLinkStepAndErrors) {
  for (const RunKind kind : {RunKind::sequential, RunKind::overlap}) {
    double before = 0.0;
    const auto expect_slower = [&](const RunModel& m, const char* what, double value) {
      const double seconds = of(m, kind, 60).seconds;
      EXPECT_GT(seconds, before) << what << ' ' << value;
      before = seconds;
    };
    for (const double round_trip : {0.0, 0.020, 0.050, 0.100, 0.200}) {
      expect_slower(model(0.7, round_trip), "round trip", round_trip);
    }
    before = 0.0;
    for (const double step : {0.001, 0.004, 0.010, 0.020}) {
      RunModel m = model(0.7, 0.020);
      m.step = step;
      expect_slower(m, "step", step);
    }
    before = 0.0;
    for (const double acceptance : {0.95, 0.8, 0.6, 0.3, 0.1}) {
      expect_slower(model(acceptance, 0.020), "acceptance", acceptance);
    }
  }
}

// The server waits 0.3 s before each pass until eight passes, the prompt's included, had no hints.
TEST(RunModelTest, EconomyStopsWaitingIfNoHintsCome) {
  RunModel m = model(0.0, 0.100);
  m.ranks = {0.0};
  const RunForecast economy = of(m, RunKind::economy);
  EXPECT_NEAR(kTokens * economy.seconds, kTokens * of(m, RunKind::stream).seconds + 7 * 0.3, 1e-9);
}

TEST(RunModelTest, MessagesInOneDirectionKeepOrder) {
  RunModel m = model(1.0, 0.0);
  m.down = [](double now, std::uint32_t) { return now < 6.5 * kPass ? 50.0 : 0.0; };
  EXPECT_NEAR(kTokens * of(m, RunKind::stream, 1).seconds, 6 * kPass + 50.0, 1e-9)
      << "later verdicts do not overtake earlier ones";

  // The hints of one message take longer than the answer. All later ones queue after them.
  m = model(0.5, 0.0);
  const double stream = of(m, RunKind::stream, 1).seconds;
  ASSERT_LT(of(m, RunKind::overlap, 1).seconds, 0.7 * stream);
  m.up = [](double now) { return now > 0.050 && now < 0.080 ? 50.0 : 0.0; };
  EXPECT_GT(of(m, RunKind::overlap, 1).seconds, 0.95 * stream)
      << "later hints do not overtake earlier ones";
}

TEST(RunModelTest, LinkTimesAreMonotonicAndCoverAllTokens) {
  for (const RunKind kind :
       {RunKind::stream, RunKind::sequential, RunKind::overlap, RunKind::economy}) {
    RunModel m = model(0.7, 0.0);
    double up_at = 0.0;
    double down_at = 0.0;
    std::uint32_t tokens = 0;
    m.up = [&](double now) {
      EXPECT_GE(now, up_at);
      up_at = now;
      return 0.010;
    };
    m.down = [&](double now, std::uint32_t count) {
      EXPECT_GE(now, down_at);
      down_at = now;
      tokens += count;
      return 0.010;
    };
    constexpr std::uint32_t kAnswers = 3;
    const RunForecast f = of(m, kind, kAnswers);
    EXPECT_NEAR(down_at, kAnswers * kTokens * f.seconds - 0.010, 1e-9) << "answers share one clock";
    // The last verdict of an answer may bring a token beyond its end.
    EXPECT_GE(tokens, kAnswers * kTokens);
    EXPECT_LE(tokens, kAnswers * (kTokens + 1));
  }
}

TEST(RunModelTest, ForecastIsMeanOfItsAnswers) {
  const RunModel m = model(0.7, 0.031);
  const RunForecast both = forecast(m, RunKind::overlap, kTokens, 2, 5);
  const RunForecast first = forecast(m, RunKind::overlap, kTokens, 1, 5);
  const RunForecast second = forecast(m, RunKind::overlap, kTokens, 1, 6);
  EXPECT_NEAR(both.seconds, (first.seconds + second.seconds) / 2, 1e-12);
  EXPECT_NEAR(both.passes, (first.passes + second.passes) / 2, 1e-12);
  EXPECT_NEAR(both.rows, (first.rows + second.rows) / 2, 1e-12);
  EXPECT_NEAR(both.steps, (first.steps + second.steps) / 2, 1e-12);
}

// A limit of expanded nodes bounds the device's tree for any drafter.
TEST(RunModelTest, BoundsTreeOfCertainTokens) {
  RunModel m = model(0.7, 0.031);
  m.ranks.assign(8, 1.0);
  m.step = 1e-6;
  EXPECT_LT(of(m, RunKind::overlap, 1).steps, 256.0);
}

TEST(RunModelTest, ForecastIsDeterministicPerSeed) {
  const RunModel m = model(0.7, 0.031);
  const double seconds = forecast(m, RunKind::overlap, 96, 3, 5).seconds;
  EXPECT_EQ(forecast(m, RunKind::overlap, 96, 3, 5).seconds, seconds);
  EXPECT_NE(forecast(m, RunKind::overlap, 96, 3, 6).seconds, seconds);
}

}  // namespace
}  // namespace edgedraft
