#include "shared/speculative/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace edgedraft {
namespace {

TEST(LogprobsTest, ListsChosenTokenThenLikeliest) {
  // Probabilities 1/10, 4/10, 2/10, 2/10, 1/10.
  const std::vector<float> logits{0.0f, std::log(4.0f), std::log(2.0f), std::log(2.0f), 0.0f};
  std::vector<Logprob> told;
  append_logprobs(logits, 3, 4, told);
  append_logprobs(logits, 1, 1, told);
  const std::vector<std::uint32_t> tokens{3, 1, 2, 3, 1};
  const std::vector<double> probabilities{0.2, 0.4, 0.2, 0.2, 0.4};
  ASSERT_EQ(told.size(), tokens.size());
  for (std::size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].token, tokens[i]);
    EXPECT_NEAR(std::exp(told[i].value), probabilities[i], 1e-6);
  }
}

TEST(LogprobsTest, EveryValueIsFinite) {
  const std::vector<float> logits{1e30f, -1e30f, -std::numeric_limits<float>::infinity()};
  std::vector<Logprob> told;
  append_logprobs(logits, 2, 21, told);
  ASSERT_EQ(told.size(), 4u) << "the chosen token and the whole vocabulary";
  EXPECT_EQ(told[0].value, -9999.0f);
  EXPECT_EQ(told[1], (Logprob{.token = 0, .value = 0.0f}));
  EXPECT_EQ(told[3].value, -9999.0f);
}

// A model whose arithmetic overflowed may produce NaN logits.
TEST(LogprobsTest, NanLogitsAreImpossibleTokens) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<Logprob> told;
  append_logprobs(std::vector<float>{kNan, 0.0f, kNan, std::log(3.0f)}, 0, 21, told);
  ASSERT_EQ(told.size(), 5u);
  EXPECT_EQ(told[0], (Logprob{.token = 0, .value = -9999.0f}));
  EXPECT_EQ(told[1].token, 3u);
  EXPECT_NEAR(std::exp(told[1].value), 0.75, 1e-6);
  EXPECT_EQ(told[2].token, 1u);
  EXPECT_NEAR(std::exp(told[2].value), 0.25, 1e-6);
  EXPECT_EQ(told[3], (Logprob{.token = 0, .value = -9999.0f}));
  EXPECT_EQ(told[4], (Logprob{.token = 2, .value = -9999.0f}));
}

TEST(LogprobsTest, InfiniteLogitsAreCertainTokens) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<Logprob> told;
  append_logprobs(std::vector<float>{5.0f, kInfinity, -kInfinity}, 1, 21, told);
  EXPECT_EQ(told, (std::vector<Logprob>{{.token = 1, .value = 0.0f},
                                        {.token = 1, .value = 0.0f},
                                        {.token = 0, .value = -9999.0f},
                                        {.token = 2, .value = -9999.0f}}));
}

TEST(LogprobsTest, AllTokensImpossibleIfNoLogitIsFinite) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float none : {kNan, -std::numeric_limits<float>::infinity()}) {
    std::vector<Logprob> told;
    append_logprobs(std::vector<float>(3, none), 2, 21, told);
    ASSERT_EQ(told.size(), 4u);
    for (const Logprob& logprob : told) EXPECT_EQ(logprob.value, -9999.0f);
    EXPECT_EQ(told[1].token, 0u) << "ties go to the lower token";
  }
}

}  // namespace
}  // namespace edgedraft
