#include "server/hints/row_filling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "server/hints/hint_calibration.h"
#include "shared/base/random.h"

namespace edgedraft {
namespace {

// A pass of 30 ms, and 0.6 more for every further row.
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

TEST(RowFillingTest, AHintIsTakenWhileItBringsMoreThanItCosts) {
  const std::vector<double> probabilities = chain(0.8, 40);
  const HintOffer offer(probabilities);
  const auto taken = fill_rows({.rows = 1, .tokens = 1.0, .rows_left = 100, .hold_short = false},
                               std::span(&offer, 1), paced);
  // The best prefix, by trying each.
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
  EXPECT_EQ(taken, std::vector<std::uint32_t>{best});
  EXPECT_GT(best, 4u);
  EXPECT_LT(best, 20u);
}

TEST(RowFillingTest, RowsGoToWhoeverMakesMostOfThem) {
  const std::vector<double> good = chain(0.95, 10);
  const std::vector<double> bad = chain(0.3, 10);
  const std::vector<HintOffer> offers{good, bad, {}};
  const auto taken =
      fill_rows({.rows = 3, .tokens = 3.0, .rows_left = 8, .hold_short = false}, offers, paced);
  EXPECT_EQ(taken[0] + taken[1] + taken[2], 8u);
  EXPECT_GE(taken[0], 7u);
  EXPECT_EQ(taken[2], 0u);
}

TEST(RowFillingTest, ASessionWithoutHintsIsNotMadeToWait) {
  const std::vector<double> certain(100, 1.0);
  const std::vector<HintOffer> offers{certain};
  const auto taken = [&](bool hold_short) {
    return fill_rows({.rows = 2, .tokens = 2.0, .rows_left = 100, .hold_short = hold_short}, offers,
                     paced)[0];
  };
  EXPECT_EQ(taken(false), 100u);
  EXPECT_EQ(taken(true), 1u) << "0.0306 s x 1.03";
}

TEST(RowFillingTest, AStepOfTheCostIsCrossedIfWhatLiesBehindItPays) {
  // Rows come in tiles of 8.
  const auto tiles = [](std::uint32_t rows) { return 0.010 * ((rows + 7) / 8); };
  const std::vector<double> certain(15, 1.0);
  const std::vector<HintOffer> offers{certain};
  const auto taken = [&](std::uint32_t rows_left) {
    return fill_rows({.rows = 1, .tokens = 1.0, .rows_left = rows_left, .hold_short = false},
                     offers, tiles)[0];
  };
  EXPECT_EQ(taken(15), 7u) << "both tiles full are no better than one: the fewer rows";
  const std::vector<double> mixed{1, 1, 1, .1, .1, .1, .1, 1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(fill_rows({.rows = 1, .tokens = 1.0, .rows_left = 15, .hold_short = false},
                      std::vector<HintOffer>{mixed}, tiles)[0],
            7u)
      << "a hint is worth no more than the one above it";
}

TEST(RowFillingTest, NothingIsTakenIfARowCostsAsMuchAsAPass) {
  const std::vector<double> probabilities = chain(0.9, 10);
  const std::vector<HintOffer> offers{probabilities};
  EXPECT_EQ(fill_rows({.rows = 1, .tokens = 1.0, .rows_left = 100, .hold_short = false}, offers,
                      [](std::uint32_t rows) { return 1.0 * rows; })[0],
            0u);
}

TEST(HintCalibrationTest, BelievesAScoreUntilItHasSeenSome) {
  const HintCalibration calibration;
  EXPECT_DOUBLE_EQ(calibration.probability(0), 1.0);
  EXPECT_NEAR(calibration.probability(8), std::exp(-1.0), 1e-9);
  EXPECT_LT(calibration.probability(1000), 1e-9);
}

TEST(HintCalibrationTest, LearnsWhatScoresAreWorth) {
  HintCalibration calibration;
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    calibration.observe(0, false);                   // a peer that calls everything certain
    calibration.observe(8, random.uniform() < 0.9);  // and a drafter that underrates itself
  }
  EXPECT_LT(calibration.probability(0), 0.05);
  EXPECT_NEAR(calibration.probability(8), 0.9, 0.08);
  EXPECT_NEAR(calibration.probability(20), std::exp(-2.5), 1e-9) << "of which nothing was seen";
}

}  // namespace
}  // namespace edgedraft
