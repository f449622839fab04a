#include "shared/speculative/sampling.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "shared/base/random.h"

namespace edgedraft {
namespace {

constexpr std::array<float, 5> kLogits{1.0f, 3.0f, 2.0f, 3.0f, -1.0f};

std::vector<double> law(const SamplingParams& params, std::uint64_t draws) {
  Sampler sampler(params);
  std::vector<double> share(kLogits.size(), 0.0);
  for (std::uint64_t position = 0; position < draws; ++position) {
    share[sampler.choose(kLogits, position)] += 1.0 / static_cast<double>(draws);
  }
  return share;
}

std::vector<double> softmax(double temperature) {
  std::vector<double> p;
  double sum = 0.0;
  for (const float logit : kLogits) sum += p.emplace_back(std::exp(logit / temperature));
  for (double& x : p) x /= sum;
  return p;
}

// 40,000 draws: the standard error of a share is below 0.0025.
constexpr std::uint64_t kDraws = 40'000;
constexpr double kTolerance = 0.0125;

TEST(SamplerTest, ZeroTemperatureTakesTheLowestOfTheBest) {
  Sampler sampler({});
  for (std::uint64_t position = 0; position < 10; ++position) {
    EXPECT_EQ(sampler.choose(kLogits, position), 1u);
  }
}

TEST(SamplerTest, DrawsFollowTheSoftmaxOfTheTemperature) {
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    const auto measured = law({.temperature = temperature, .seed = 7}, kDraws);
    const auto expected = softmax(temperature);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(measured[i], expected[i], kTolerance) << "T " << temperature << " token " << i;
    }
  }
}

TEST(SamplerTest, TopKKeepsTheBestAndBreaksTiesByTheLowestToken) {
  EXPECT_NEAR(law({.temperature = 1.0f, .top_k = 1, .seed = 1}, 100)[1], 1.0, 1e-9);
  const auto two = law({.temperature = 1.0f, .top_k = 2, .seed = 1}, kDraws);
  EXPECT_NEAR(two[1], 0.5, kTolerance);
  EXPECT_NEAR(two[3], 0.5, kTolerance);
  const auto three = law({.temperature = 1.0f, .top_k = 3, .seed = 1}, kDraws);
  EXPECT_EQ(three[0] + three[4], 0.0);
  EXPECT_GT(three[2], 0.0);
}

TEST(SamplerTest, TopPStopsWhereTheMassIsReached) {
  // softmax = .054 .400 .147 .400 ...: two tokens reach 0.7, three reach 0.9.
  const auto narrow = law({.temperature = 1.0f, .top_p = 0.7f, .seed = 3}, kDraws);
  EXPECT_EQ(narrow[0] + narrow[2] + narrow[4], 0.0);
  const auto wide = law({.temperature = 1.0f, .top_p = 0.9f, .seed = 3}, kDraws);
  EXPECT_EQ(wide[0] + wide[4], 0.0);
  EXPECT_GT(wide[2], 0.0);
}

TEST(SamplerTest, MinPDropsWhatIsFarBelowTheBest) {
  // Weights relative to the best: e^-2 = .135, 1, e^-1 = .368, 1, e^-4.
  const auto kept = law({.temperature = 1.0f, .min_p = 0.2f, .seed = 3}, kDraws);
  EXPECT_EQ(kept[0] + kept[4], 0.0);
  EXPECT_GT(kept[2], 0.0);
}

TEST(SamplerTest, ADrawIsAFunctionOfSeedAndPosition) {
  Sampler forwards({.temperature = 1.0f, .seed = 11});
  Sampler backwards({.temperature = 1.0f, .seed = 11});
  std::vector<std::uint32_t> a(200);
  std::vector<std::uint32_t> b(200);
  for (std::size_t i = 0; i < 200; ++i) a[i] = forwards.choose(kLogits, i);
  for (std::size_t i = 200; i-- > 0;) b[i] = backwards.choose(kLogits, i);
  EXPECT_EQ(a, b);
  Sampler other({.temperature = 1.0f, .seed = 12});
  std::vector<std::uint32_t> c(200);
  for (std::size_t i = 0; i < 200; ++i) c[i] = other.choose(kLogits, i);
  EXPECT_NE(a, c);
}

TEST(SamplerTest, SurvivesInfiniteGapsAndHugeLogits) {
  const std::array<float, 3> logits{-INFINITY, 1e30f, -1e30f};
  for (const float temperature : {0.0f, 0.01f, 100.0f}) {
    Sampler sampler({.temperature = temperature, .top_p = 0.5f, .min_p = 0.5f});
    EXPECT_EQ(sampler.choose(logits, 0), 1u);
  }
}

// Keys in 16 bits may overflow on some texts: that must not end a server.
TEST(SamplerTest, LogitsThatAreNoNumbersStillGiveAToken) {
  const std::array<float, 3> nothing{NAN, NAN, NAN};
  const std::array<float, 3> infinite{-INFINITY, INFINITY, 0.0f};
  const std::array<float, 3> none{-INFINITY, -INFINITY, -INFINITY};
  for (const float temperature : {0.0f, 1.0f}) {
    Sampler sampler({.temperature = temperature, .top_k = 2, .top_p = 0.9f, .min_p = 0.1f});
    EXPECT_LT(sampler.choose(nothing, 3), 3u);
    EXPECT_EQ(sampler.choose(infinite, 3), 1u);
    EXPECT_LT(sampler.choose(none, 3), 3u);
  }
}

}  // namespace
}  // namespace edgedraft
