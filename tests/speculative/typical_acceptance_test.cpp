#include "tests/bench/rules/typical_acceptance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace edgedraft {
namespace {

constexpr TypicalThreshold kPublished{.epsilon = 0.09, .delta = 0.3};
constexpr std::uint32_t kEnd = 4;
using Rows = std::vector<std::uint32_t>;

TEST(TypicalAcceptanceTest, AcceptsTokensAboveEntropyThreshold) {
  // A peaked distribution, entropy 0.33 nats: the threshold is epsilon.
  const DenseDistribution sure{0.9, 0.1, 0.0};
  EXPECT_TRUE(is_typical(sure, 0, kPublished));
  EXPECT_TRUE(is_typical(sure, 1, kPublished));
  EXPECT_FALSE(is_typical(sure, 2, kPublished));
  EXPECT_FALSE(is_typical({0.92, 0.08}, 1, kPublished));
  // Sixteen equal tokens: exp(-H) is 1/16, so each is typical.
  const DenseDistribution even(16, 1.0 / 16);
  EXPECT_TRUE(is_typical(even, 3, kPublished));
  EXPECT_FALSE(is_typical(even, 3, {.epsilon = 0.09, .delta = 1.1}));
}

// Every row has the same distribution.
TypicalOptions options(const DenseDistribution& distribution, std::uint32_t context_count = 100) {
  return {
      .root_position = 10,
      .context_count = context_count,
      .threshold = kPublished,
      .target = [&distribution](std::uint32_t) -> const DenseDistribution& { return distribution; },
      .is_end = [](std::uint32_t token) { return token == kEnd; }};
}

TEST(TypicalAcceptanceTest, TakesLongestPathAndAddsLikeliestToken) {
  const DenseDistribution distribution{0.4, 0.3, 0.25, 0.05, 0.0};
  DraftTree tree;
  tree.add(3, 0);  // not typical, nor are its descendants
  tree.add(0, 1);
  tree.add(0, 2);
  tree.add(1, 0);
  tree.add(2, 4);
  tree.add(0, 0);
  const VerifiedPath found = verify_typical(tree, options(distribution));
  EXPECT_EQ(found.path, (Rows{4, 5}));
  EXPECT_EQ(found.next, 0u);
  EXPECT_EQ(found.finish, Finish::none);
}

TEST(TypicalAcceptanceTest, TakesLikeliestOfEquallyLongPaths) {
  const DenseDistribution distribution{0.4, 0.3, 0.25, 0.05, 0.0};
  DraftTree tree;
  tree.add(2, 0);
  tree.add(1, 0);
  tree.add(2, 1);
  tree.add(0, 2);
  EXPECT_EQ(verify_typical(tree, options(distribution)).path, (Rows{2, 4}));
}

TEST(TypicalAcceptanceTest, IsGreedyStepWithoutTypicalChild) {
  const DenseDistribution distribution{0.05, 0.9, 0.05, 0.0, 0.0};
  DraftTree tree;
  tree.add(2, 0);
  EXPECT_TRUE(verify_typical(tree, options(distribution)).path.empty());
  EXPECT_EQ(verify_typical(tree, options(distribution)).next, 1u);
}

TEST(TypicalAcceptanceTest, StopsAtEndOfAnswerOrContext) {
  const DenseDistribution ends{0.3, 0.1, 0.0, 0.0, 0.6};
  DraftTree tree;
  tree.add(kEnd, 0);
  tree.add(0, 1);
  const VerifiedPath ended = verify_typical(tree, options(ends));
  EXPECT_TRUE(ended.path.empty());
  EXPECT_EQ(ended.next, kEnd);
  EXPECT_EQ(ended.finish, Finish::end_token);

  const DenseDistribution distribution{0.6, 0.4, 0.0, 0.0, 0.0};
  DraftTree chain;
  for (std::uint32_t i = 0; i < 5; ++i) chain.add(0, i);
  const VerifiedPath full = verify_typical(chain, options(distribution, 14));
  EXPECT_EQ(full.path, (Rows{1, 2}));
  EXPECT_EQ(full.finish, Finish::context);
}

}  // namespace
}  // namespace edgedraft
