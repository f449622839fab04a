#include "shared/speculative/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace edgedraft {
namespace {

TEST(LogprobsTest, TheChosenTokenComesFirstThenTheLikeliest) {
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
  ASSERT_EQ(told.size(), 4u) << "the vocabulary has no more";
  EXPECT_EQ(told[0].value, -9999.0f);
  EXPECT_EQ(told[1], (Logprob{.token = 0, .value = 0.0f}));
  EXPECT_EQ(told[3].value, -9999.0f);
}

}  // namespace
}  // namespace edgedraft
