#include "netsim/lab/oracle_drafter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

namespace edgedraft::lab {
namespace {

constexpr std::uint32_t kOracleVocabulary = 500;

std::vector<std::uint32_t> long_answer(std::size_t count) {
  std::vector<std::uint32_t> answer(count);
  std::iota(answer.begin(), answer.end(), 100);
  for (std::uint32_t& token : answer) token %= kOracleVocabulary;
  return answer;
}

// The number of drafted tokens that the target accepts.
std::uint32_t accepted(const DraftTree& tree, std::span<const std::uint32_t> answer) {
  std::uint32_t at = 0;
  std::uint32_t count = 0;
  for (std::uint32_t row = 1; row <= tree.node_count(); ++row) {
    if (tree.parent(row) != at || count == answer.size() || tree.token(row) != answer[count])
      continue;
    at = row;
    ++count;
  }
  return count;
}

// Runs an answer as the generation loop does. Returns the share of verified positions that were
// right.
double acceptance(const TreeShape& shape, double wanted) {
  const auto answer = long_answer(20'000);
  OracleDrafter drafter({.answer = answer, .acceptance = wanted, .seed = 3}, kOracleVocabulary, 0);
  drafter.append(std::vector<std::uint32_t>{1, 2, 3});
  drafter.append(std::span(answer).first(1));
  std::size_t known = 1;
  std::size_t right = 0;
  std::size_t tried = 0;
  while (known + shape.depth + 1 < answer.size()) {
    const auto count = accepted(drafter.draft(shape), std::span(answer).subspan(known));
    right += count;
    tried += std::min(count + 1, shape.depth);
    drafter.append(std::span(answer).subspan(known, count + 1));
    known += count + 1;
  }
  return static_cast<double>(right) / static_cast<double>(tried);
}

TEST(OracleDrafterTest, MatchesConfiguredAcceptance) {
  for (const double wanted : {0.0, 0.3, 0.8, 1.0}) {
    // 20,000 positions: the standard deviation is below 0.004.
    EXPECT_NEAR(acceptance(chain_shape(4), wanted), wanted, 0.02);
  }
}

// The scores of the root's children must match the measured shares.
TEST(OracleDrafterTest, ScoresMatchAcceptancePerRank) {
  const auto answer = long_answer(20'000);
  OracleDrafter drafter({.answer = answer, .acceptance = 0.7, .seed = 3}, kOracleVocabulary, 0);
  drafter.append(std::vector<std::uint32_t>{1, 2, 3});
  std::array<double, 8> right{};
  std::array<double, 8> promised{};
  for (std::size_t known = 0; known < answer.size(); ++known) {
    const DraftTree level = drafter.draft({.breadth = 8, .depth = 1, .nodes = 8});
    ASSERT_EQ(level.node_count(), 8u);
    for (std::uint32_t row = 1; row <= 8; ++row) {
      right[row - 1] += level.token(row) == answer[known] ? 1.0 : 0.0;
      promised[row - 1] += std::exp(static_cast<double>(level.score(row)));
    }
    drafter.append(std::span(answer).subspan(known, 1));
  }
  for (std::size_t rank = 0; rank < 8; ++rank) EXPECT_NEAR(right[rank], promised[rank], 200.0);
  EXPECT_NEAR(right[0] / static_cast<double>(answer.size()), 0.7, 0.02);
}

TEST(OracleDrafterTest, TreeHasRequestedSizeAndDistinctSiblings) {
  const auto answer = long_answer(50);
  OracleDrafter drafter({.answer = answer, .acceptance = 0.5, .seed = 1}, kOracleVocabulary, 7);
  EXPECT_EQ(drafter.activation_cols(), 7u);
  drafter.append(std::vector<std::uint32_t>{1});
  const DraftTree tree = drafter.draft({.breadth = 8, .depth = 6, .nodes = 30});
  EXPECT_EQ(tree.node_count(), 30u);
  std::set<std::pair<std::uint32_t, std::uint32_t>> children;
  for (std::uint32_t row = 1; row <= tree.node_count(); ++row) {
    EXPECT_TRUE(children.insert({tree.parent(row), tree.token(row)}).second);
  }
}

TEST(OracleDrafterTest, EndsWithAnswer) {
  OracleDrafter drafter({.answer = {10, 11, 12}, .acceptance = 1, .seed = 1}, kOracleVocabulary, 0);
  drafter.append(std::vector<std::uint32_t>{1, 2});
  EXPECT_EQ(drafter.draft(chain_shape(8)).node_count(), 3u);
  drafter.append(std::vector<std::uint32_t>{10, 11});
  const auto logits = drafter.next_logits();
  ASSERT_EQ(logits.size(), kOracleVocabulary);
  EXPECT_EQ(std::max_element(logits.begin(), logits.end()) - logits.begin(), 12);
  drafter.append(std::vector<std::uint32_t>{12});
  EXPECT_TRUE(drafter.next_logits().empty());
  EXPECT_EQ(drafter.draft(chain_shape(8)).node_count(), 0u);
  drafter.truncate(3);
  EXPECT_EQ(drafter.draft(chain_shape(8)).node_count(), 2u);
}

}  // namespace
}  // namespace edgedraft::lab
