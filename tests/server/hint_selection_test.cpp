#include "server/passes/hint_selection.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "server/hints/hint_calibration.h"
#include "shared/base/random.h"

namespace edgedraft::server {
namespace {

using namespace std::chrono_literals;

// 30 ms per pass, plus 0.6 ms per further row.
double paced(std::uint32_t rows) {
  return 0.030 + 0.0006 * (rows - 1);
}

std::vector<double> chain(double acceptance, std::size_t count) {
  std::vector<double> probabilities;
  for (std::size_t i = 1; i <= count; ++i) {
    probabilities.push_back(std::pow(acceptance, static_cast<double>(i)));
  }
  return probabilities;
}

constexpr Instant kNow{1h};

// A run whose client sends hints.
RunOffer offer_of(std::span<const double> probabilities) {
  return {.probabilities = probabilities, .history = {.was_hinted = true}, .begun = kNow};
}

std::vector<std::uint32_t> taken(const PassTerms& pass, std::span<const RunOffer> runs,
                                 const std::function<double(std::uint32_t)>& seconds_of = paced) {
  const HintSelection selection = select_hints(pass, runs, seconds_of, kNow);
  EXPECT_FALSE(selection.held_until);
  return selection.taken;
}

TEST(HintSelectionTest, TakesHintsWhileGainExceedsCost) {
  const std::vector<double> probabilities = chain(0.8, 40);
  const RunOffer run = offer_of(probabilities);
  // Finds the best prefix by exhaustive search.
  double tokens = 1.0;
  double best_rate = tokens / paced(1);
  std::uint32_t best = 0;
  for (std::uint32_t count = 1; count <= 40; ++count) {
    tokens += probabilities[count - 1];
    if (tokens / paced(1 + count) > best_rate) {
      best_rate = tokens / paced(1 + count);
      best = count;
    }
  }
  EXPECT_EQ(taken({.rows_max = 101}, std::span(&run, 1)), std::vector<std::uint32_t>{best});
  EXPECT_GT(best, 4u);
  EXPECT_LT(best, 20u);
}

TEST(HintSelectionTest, TakesLikeliestHintsOfTwoRunsFirst) {
  const std::vector<double> first{0.9, 0.5, 0.4};
  const std::vector<double> second{0.8, 0.7, 0.2};
  const std::vector<RunOffer> runs{offer_of(first), offer_of(second)};
  const auto flat = [](std::uint32_t) { return 0.030; };
  using Taken = std::vector<std::uint32_t>;
  EXPECT_EQ(taken({.rows_max = 3}, runs, flat), (Taken{1, 0}));
  EXPECT_EQ(taken({.rows_max = 4}, runs, flat), (Taken{1, 1}));
  EXPECT_EQ(taken({.rows_max = 5}, runs, flat), (Taken{1, 2}));
  EXPECT_EQ(taken({.rows_max = 6}, runs, flat), (Taken{2, 2}));
  EXPECT_EQ(taken({.rows_max = 100}, runs, flat), (Taken{3, 3}));
}

TEST(HintSelectionTest, GivesRowsToRunWithBetterHints) {
  const std::vector<double> good = chain(0.95, 10);
  const std::vector<double> bad = chain(0.3, 10);
  const auto rows =
      taken({.rows_max = 11}, std::vector<RunOffer>{offer_of(good), offer_of(bad), offer_of({})});
  EXPECT_EQ(rows[0] + rows[1] + rows[2], 8u);
  EXPECT_GE(rows[0], 7u);
  EXPECT_EQ(rows[2], 0u);
}

TEST(HintSelectionTest, LeavesRoomForPromptsOtherSessionsAndProbes) {
  const std::vector<double> certain(100, 1.0);
  RunOffer run = offer_of(certain);
  run.probe_rows = 5;
  const PassTerms pass{.rows = 10, .tokens = 2.0, .prompt_rows = 64, .rows_max = 100};
  EXPECT_EQ(taken(pass, std::span(&run, 1))[0], 100u - 64 - 10 - 1 - 5);
}

TEST(HintSelectionTest, TakesFewHintsUntilCostsAreKnown) {
  const std::vector<double> certain(100, 1.0);
  const RunOffer run = offer_of(certain);
  EXPECT_EQ(taken({.rows_max = 256, .knows_costs = false}, std::span(&run, 1))[0], 7u);
}

TEST(HintSelectionTest, DoesNotDelaySessionsWithoutHints) {
  const std::vector<double> certain(100, 1.0);
  const RunOffer run = offer_of(certain);
  const PassTerms pass{.rows = 1, .tokens = 1.0, .rows_max = 102};
  EXPECT_EQ(taken(pass, std::span(&run, 1))[0], 100u) << "a lockstep run waits for its pass";

  RunOffer silent = offer_of({});
  silent.history.is_hintless = true;
  EXPECT_EQ(taken({.rows_max = 102}, std::vector<RunOffer>{run, silent})[0], 1u);
  EXPECT_EQ(taken({.rows_max = 102, .guesses_join = true}, std::vector<RunOffer>{run, silent})[0],
            100u)
      << "all runs gain";
}

TEST(HintSelectionTest, CrossesCostStepOnlyIfFollowingRowsPay) {
  // Rows are computed in tiles of 8.
  const auto tiles = [](std::uint32_t rows) { return 0.010 * ((rows + 7) / 8); };
  const auto taken_of = [&](const std::vector<double>& probabilities) {
    const RunOffer run = offer_of(probabilities);
    return taken({.rows_max = 16}, std::span(&run, 1), tiles)[0];
  };
  EXPECT_EQ(taken_of(std::vector<double>(15, 1.0)), 7u)
      << "two full tiles are no better than one, so it takes fewer rows";
  EXPECT_EQ(taken_of({1, 1, 1, .1, .1, .1, .1, 1, 1, 1, 1, 1, 1, 1, 1}), 7u)
      << "a hint is worth no more than its parent";
}

TEST(HintSelectionTest, TakesNothingIfRowCostsAsMuchAsPass) {
  const std::vector<double> probabilities = chain(0.9, 10);
  const RunOffer run = offer_of(probabilities);
  EXPECT_EQ(taken({.rows_max = 101}, std::span(&run, 1),
                  [](std::uint32_t rows) { return 1.0 * rows; })[0],
            0u);
}

class HoldTest : public ::testing::Test {
 protected:
  HintSelection select() const { return select_hints(pass, runs, paced, kNow); }

  // A pass takes 30 ms; hints worth four tokens are due in 2 ms.
  HoldTest() {
    runs.push_back(offer_of({}));
    runs.back().next = {.at = kNow + 2ms, .tokens = 4.0, .a_pass = 4.0};
  }

  PassTerms pass{.rows_max = 256};
  std::vector<RunOffer> runs;
};

TEST_F(HoldTest, WaitsForHintsWorthMoreThanDelay) {
  EXPECT_EQ(select().held_until, kNow + 2ms);
  EXPECT_TRUE(select().taken.empty());
  runs[0].next->tokens = 0.05;  // 1 token in 30 ms is 0.067 in 2 ms
  EXPECT_FALSE(select().held_until);
  EXPECT_EQ(select().taken, std::vector<std::uint32_t>{0});
}

TEST_F(HoldTest, WaitsForFirstOfTwoMessages) {
  runs.push_back(runs[0]);
  runs[1].next->at = kNow + 1ms;
  EXPECT_EQ(select().held_until, kNow + 1ms);
}

TEST_F(HoldTest, LimitsTotalWaitToGainOfTwoPasses) {
  runs[0].next->at = kNow + 19ms;
  EXPECT_TRUE(select().held_until) << "the limit is 30 ms x 4 / 6";
  runs[0].begun -= 2ms;
  EXPECT_FALSE(select().held_until) << "part of the limit has passed";
}

TEST_F(HoldTest, DoesNotWaitWithoutExpectedHints) {
  runs[0].next.reset();
  EXPECT_FALSE(select().held_until);
}

TEST_F(HoldTest, NeverDelaysSessionsThatGainNothing) {
  PassTerms with_draft = pass;
  with_draft.rows = 1;
  with_draft.tokens = 1.0;
  EXPECT_FALSE(select_hints(with_draft, runs, paced, kNow).held_until);
  PassTerms with_prompt = pass;
  with_prompt.prompt_rows = 64;
  EXPECT_FALSE(select_hints(with_prompt, runs, paced, kNow).held_until);
  runs.push_back(offer_of({}));
  runs[1].history.was_hinted = false;
  EXPECT_FALSE(select().held_until) << "another client only listens";
  runs[1].history = {.was_hinted = true, .is_hintless = true};
  EXPECT_FALSE(select().held_until) << "another client has stopped sending hints";
}

TEST_F(HoldTest, GapRunWaitsOnlyForMoreThanOwnTree) {
  runs[0].is_gap = true;
  EXPECT_FALSE(select().held_until) << "the value of the server's trees is unknown";
  pass.gap_tree = {.rows = 5, .tokens = 1.5, .seconds = 0.002};
  EXPECT_TRUE(select().held_until);
  pass.gap_tree = {.rows = 5, .tokens = 5.5, .seconds = 0.0};
  EXPECT_FALSE(select().held_until);
}

TEST_F(HoldTest, IgnoresOwnTreeIfNoRunIsAGap) {
  pass.gap_tree = {.rows = 5, .tokens = 5.5, .seconds = 0.0};
  EXPECT_EQ(select().held_until, kNow + 2ms);
  runs[0].next.reset();
  const std::vector<double> probabilities = chain(0.8, 40);
  runs[0].probabilities = probabilities;
  const auto with_tree = select().taken;
  pass.gap_tree.reset();
  EXPECT_EQ(select().taken, with_tree);
}

TEST(EconomyWaitTest, LastsOneExchangeAndAtMostOneSecond) {
  HintHistory history{.asks_economy = true};
  EXPECT_EQ(economy_wait(Economy::as_asked, history), 300ms) << "the default";
  history.delay = 40ms;
  EXPECT_EQ(economy_wait(Economy::as_asked, history), 70ms);
  EXPECT_EQ(economy_wait(Economy::on, history), 70ms);
  history.delay = 10s;
  EXPECT_EQ(economy_wait(Economy::as_asked, history), 1s);
}

TEST(EconomyWaitTest, IsZeroIfNoHintsAreUnderWay) {
  EXPECT_EQ(economy_wait(Economy::as_asked, {.asks_economy = true, .is_hintless = true}), 0s);
  EXPECT_EQ(economy_wait(Economy::on, {}), 0s) << "the client may never send hints";
  EXPECT_EQ(economy_wait(Economy::on, {.was_hinted = true}), 300ms);
  EXPECT_EQ(economy_wait(Economy::on, {.was_hinted = true, .is_hintless = true}), 0s);
}

TEST(EconomyWaitTest, IsZeroUnlessRequested) {
  EXPECT_EQ(economy_wait(Economy::as_asked, {.was_hinted = true, .delay = 40ms}), 0s);
  EXPECT_EQ(economy_wait(Economy::off, {.asks_economy = true, .was_hinted = true, .delay = 40ms}),
            0s);
}

TEST(HintCalibrationTest, TrustsScoresBeforeObservations) {
  const HintCalibration calibration;
  EXPECT_DOUBLE_EQ(calibration.probability(0), 1.0);
  EXPECT_NEAR(calibration.probability(8), std::exp(-1.0), 1e-9);
  EXPECT_LT(calibration.probability(1000), 1e-9);
}

TEST(HintCalibrationTest, LearnsAcceptanceByScore) {
  HintCalibration calibration;
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    calibration.observe(0, false);                   // a peer that reports every token as certain
    calibration.observe(8, random.uniform() < 0.9);  // and a drafter that underestimates itself
  }
  EXPECT_LT(calibration.probability(0), 0.05);
  EXPECT_NEAR(calibration.probability(8), 0.9, 0.08);
  EXPECT_NEAR(calibration.probability(20), std::exp(-2.5), 1e-9) << "no observations of this score";
}

}  // namespace
}  // namespace edgedraft::server
