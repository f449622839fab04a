#include "shared/speculative/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "shared/base/random.h"
#include "shared/speculative/draw_noise.h"
#include "shared/speculative/draw_ranking.h"

namespace edgedraft {
namespace {

constexpr std::array<float, 5> kLogits{1.0f, 3.0f, 2.0f, 3.0f, -1.0f};

std::vector<double> distribution(const SamplingParams& params, std::uint64_t draws) {
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

// 40,000 draws: the standard error of a frequency is below 0.0025.
constexpr std::uint64_t kDraws = 40'000;
constexpr double kTolerance = 0.0125;

TEST(SamplerTest, ZeroTemperatureTakesLowestOfBestTokens) {
  Sampler sampler({});
  for (std::uint64_t position = 0; position < 10; ++position) {
    EXPECT_EQ(sampler.choose(kLogits, position), 1u);
  }
}

TEST(SamplerTest, ReportsDistributionOfItsDraws) {
  for (const SamplingParams& params :
       {SamplingParams{.temperature = 0.7f, .seed = 3},
        SamplingParams{.temperature = 2.0f, .top_k = 3, .seed = 3},
        SamplingParams{.temperature = 2.0f, .top_p = 0.6f, .seed = 3}, SamplingParams{}}) {
    const auto measured = distribution(params, kDraws);
    const auto told = Sampler(params).distribution(kLogits);
    ASSERT_EQ(told.size(), measured.size());
    for (std::size_t i = 0; i < told.size(); ++i) {
      EXPECT_NEAR(measured[i], told[i], kTolerance);
      EXPECT_EQ(measured[i] == 0.0, told[i] == 0.0);
    }
  }
}

TEST(SamplerTest, DrawsFollowSoftmaxAtTemperature) {
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    const auto measured = distribution({.temperature = temperature, .seed = 7}, kDraws);
    const auto expected = softmax(temperature);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(measured[i], expected[i], kTolerance) << "T " << temperature << " token " << i;
    }
  }
}

TEST(SamplerTest, TopKKeepsBestAndBreaksTiesByLowestToken) {
  EXPECT_NEAR(distribution({.temperature = 1.0f, .top_k = 1, .seed = 1}, 100)[1], 1.0, 1e-9);
  const auto two = distribution({.temperature = 1.0f, .top_k = 2, .seed = 1}, kDraws);
  EXPECT_NEAR(two[1], 0.5, kTolerance);
  EXPECT_NEAR(two[3], 0.5, kTolerance);
  const auto three = distribution({.temperature = 1.0f, .top_k = 3, .seed = 1}, kDraws);
  EXPECT_EQ(three[0] + three[4], 0.0);
  EXPECT_GT(three[2], 0.0);
}

TEST(SamplerTest, TopPStopsAtItsMass) {
  // softmax = .054 .400 .147 .400 ...: two tokens reach 0.7, three reach 0.9.
  const auto narrow = distribution({.temperature = 1.0f, .top_p = 0.7f, .seed = 3}, kDraws);
  EXPECT_EQ(narrow[0] + narrow[2] + narrow[4], 0.0);
  const auto wide = distribution({.temperature = 1.0f, .top_p = 0.9f, .seed = 3}, kDraws);
  EXPECT_EQ(wide[0] + wide[4], 0.0);
  EXPECT_GT(wide[2], 0.0);
}

TEST(SamplerTest, MinPDropsTokensFarBelowBest) {
  // Weights relative to the best: e^-2 = .135, 1, e^-1 = .368, 1, e^-4.
  const auto kept = distribution({.temperature = 1.0f, .min_p = 0.2f, .seed = 3}, kDraws);
  EXPECT_EQ(kept[0] + kept[4], 0.0);
  EXPECT_GT(kept[2], 0.0);
}

TEST(SamplerTest, DrawDependsOnSeedAndPositionOnly) {
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

TEST(SamplerTest, HandlesInfiniteGapsAndHugeLogits) {
  const std::array<float, 3> logits{-INFINITY, 1e30f, -1e30f};
  for (const float temperature : {0.0f, 0.01f, 100.0f}) {
    Sampler sampler({.temperature = temperature, .top_p = 0.5f, .min_p = 0.5f});
    EXPECT_EQ(sampler.choose(logits, 0), 1u);
  }
}

// 16-bit keys may overflow on some texts; that must not end a server.
TEST(SamplerTest, NonFiniteLogitsStillGiveToken) {
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

// An untrained embedding may contain NaN.
TEST(SamplerTest, NeverChoosesTokenWithNanLogit) {
  for (std::uint32_t without = 0; without < 3; ++without) {
    std::array<float, 3> logits{1.0f, 1.0f, 1.0f};
    logits[without] = NAN;
    const std::uint32_t first = without == 0 ? 1 : 0;
    for (const SamplingParams& params : {SamplingParams{}, SamplingParams{.temperature = 1.0f},
                                         SamplingParams{.temperature = 1.0f, .top_k = 2}}) {
      Sampler sampler(params);
      std::array<std::uint32_t, 3> counts{};
      for (std::uint64_t position = 0; position < 40; ++position) {
        ++counts[sampler.choose(logits, position)];
      }
      EXPECT_EQ(counts[without], 0u);
      EXPECT_EQ(counts[first] == 40, params.greedy());
      EXPECT_EQ(sampler.distribution(logits)[without], 0.0);
    }
  }
}

// Distributions of a vocabulary: from nearly one-hot to nearly uniform, some with many ties, and
// one that is all ties.
std::vector<std::vector<float>> many_logits() {
  Random random(17);
  std::vector<std::vector<float>> distributions;
  for (const std::size_t count : {1u, 2u, 127u, 128u, 129u, 5000u}) {
    for (const double spread : {0.01, 1.0, 12.0, 60.0}) {
      std::vector<float>& smooth = distributions.emplace_back(count);
      for (float& logit : smooth) logit = static_cast<float>(random.uniform() * spread);
      std::vector<float> rounded = smooth;
      for (float& logit : rounded) logit = std::round(logit);
      distributions.push_back(std::move(rounded));
    }
    distributions.emplace_back(count, 2.0f);
  }
  return distributions;
}

struct Weighed {
  std::uint32_t token;
  double weight;
};

std::vector<Weighed> weighed(const SamplingParams& params, std::span<const float> logits) {
  const double best = logits[argmax(logits)];
  std::vector<Weighed> all;
  for (std::uint32_t token = 0; token < logits.size(); ++token) {
    const double weight = std::exp((logits[token] - best) / params.temperature);
    if (weight > 0.0) all.push_back({.token = token, .weight = weight});
  }
  return all;
}

double sum_of(const std::vector<Weighed>& tokens) {
  double sum = 0.0;
  for (const Weighed& t : tokens) sum += t.weight;
  return sum;
}

// Reference for top-k and top-p: sorts everything, likeliest first.
std::vector<double> distribution_by_sorting(const SamplingParams& params,
                                            std::span<const float> logits) {
  std::vector<Weighed> all = weighed(params, logits);
  std::ranges::stable_sort(all, std::ranges::greater{}, &Weighed::weight);
  if (params.top_k > 0 && params.top_k < all.size()) all.resize(params.top_k);
  const double mass = params.top_p * sum_of(all);
  std::size_t kept = 0;
  for (double sum = 0.0; kept < all.size() && (kept == 0 || sum < mass); ++kept) {
    sum += all[kept].weight;
  }
  all.resize(kept);
  const double total = sum_of(all);
  std::vector<double> distribution(logits.size(), 0.0);
  for (const Weighed& t : all) distribution[t.token] = t.weight / total;
  return distribution;
}

TEST(SamplerDistributionTest, TopPMatchesFullSortBitForBit) {
  for (const std::vector<float>& logits : many_logits()) {
    for (const float top_p : {0.0f, 0.1f, 0.25f, 0.5f, 0.9f, 0.95f, 0.999f, 0.99999994f}) {
      for (const std::uint32_t top_k : {0u, 100u, 2000u}) {
        const SamplingParams params{.temperature = 0.8f, .top_k = top_k, .top_p = top_p};
        EXPECT_EQ(Sampler(params).distribution(logits), distribution_by_sorting(params, logits))
            << logits.size() << " tokens, top-p " << top_p << ", top-k " << top_k;
      }
    }
  }
}

// Finds the same winner as a scan of every token's noise.
TEST(GumbelDrawTest, BoundedSearchFindsSameWinnerAsFullScan) {
  Random random(5);
  for (std::uint64_t position = 0; position < 300; ++position) {
    std::vector<float> logits(2000);
    for (float& logit : logits) logit = static_cast<float>(random.uniform() * 12.0);
    for (const float temperature : {0.3f, 1.0f, 3.0f}) {
      Sampler sampler({.temperature = temperature, .seed = 9});
      const DrawNoise noise(9, position);
      std::uint32_t best = 0;
      double most = -INFINITY;
      for (std::uint32_t t = 0; t < logits.size(); ++t) {
        const double score = double{logits[t]} / temperature + noise.gumbel(t);
        if (score > most) {
          most = score;
          best = t;
        }
      }
      EXPECT_EQ(sampler.choose(logits, position), best);
    }
  }
}

// A drafter whose distribution is near the target's often picks the same token, and otherwise ranks
// it high.
TEST(GumbelDrawTest, SimilarDistributionFindsSameToken) {
  Random random(3);
  constexpr std::uint32_t kTokens = 64;
  constexpr int kPositions = 4000;
  double distance = 0.0;
  int same_gumbel = 0;
  int ranked_first = 0;
  int ranked_in_four = 0;
  for (int position = 0; position < kPositions; ++position) {
    std::vector<float> target(kTokens);
    std::vector<float> drafter(kTokens);
    for (std::uint32_t t = 0; t < kTokens; ++t) {
      target[t] = static_cast<float>(4.0 * random.uniform());
      // Like real drafters, it underrates likely tokens.
      drafter[t] = (target[t] + static_cast<float>(random.uniform() - 0.5)) / 1.5f;
    }
    const auto distribution = [](const std::vector<float>& logits) {
      std::vector<double> p;
      double sum = 0.0;
      for (const float logit : logits) sum += p.emplace_back(std::exp(logit));
      for (double& x : p) x /= sum;
      return p;
    };
    const auto p = distribution(target);
    const auto q = distribution(drafter);
    for (std::uint32_t t = 0; t < kTokens; ++t) distance += std::abs(p[t] - q[t]) / 2 / kPositions;
    const SamplingParams params{.temperature = 1.0f, .seed = 77};
    const auto at = static_cast<std::uint64_t>(position);
    const std::uint32_t chosen = Sampler(params).choose(target, at);
    same_gumbel += Sampler(params).choose(drafter, at) == chosen;
    std::vector<DraftGuess> guesses;
    for (std::uint32_t t = 0; t < kTokens; ++t) {
      guesses.push_back({.token = t, .log_prob = static_cast<float>(std::log(q[t]))});
    }
    std::ranges::sort(guesses, std::ranges::greater{}, &DraftGuess::log_prob);
    rank_by_draw(params, at, guesses);
    ranked_first += guesses.front().token == chosen;
    guesses.resize(4);
    ranked_in_four += std::ranges::find(guesses, chosen, &DraftGuess::token) != guesses.end();
  }
  const double bound = (1.0 - distance) / (1.0 + distance);
  EXPECT_GT(same_gumbel, bound * kPositions);
  EXPECT_GT(ranked_first, same_gumbel);
  EXPECT_GT(ranked_in_four, 0.97 * kPositions);
}

TEST(DrawRankingTest, FiltersDropTokensThatCannotBeDrawn) {
  const std::vector<DraftGuess> all{{5, std::log(0.5f)}, {2, std::log(0.3f)}, {9, std::log(0.2f)}};
  const auto ranked = [&](const SamplingParams& params) {
    std::vector<DraftGuess> guesses = all;
    rank_by_draw(params, 3, guesses);
    double sum = 0.0;
    for (const DraftGuess& guess : guesses) sum += std::exp(guess.log_prob);
    EXPECT_NEAR(sum, 1.0, 1e-5);
    return guesses;
  };
  EXPECT_EQ(ranked({.temperature = 1.0f}).size(), 3u);
  EXPECT_EQ(ranked({.temperature = 1.0f, .top_k = 2}).size(), 2u);
  EXPECT_EQ(ranked({.temperature = 1.0f, .top_p = 0.7f}).size(), 2u);
  EXPECT_EQ(ranked({.temperature = 1.0f, .top_p = 0.4f}).size(), 1u);
  EXPECT_EQ(ranked({.temperature = 1.0f, .min_p = 0.4f}).size(), 2u);
  EXPECT_EQ(ranked({.temperature = 0.1f, .min_p = 0.5f}).size(), 1u);
}

}  // namespace
}  // namespace edgedraft
