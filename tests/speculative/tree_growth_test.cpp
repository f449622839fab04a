#include "shared/speculative/tree_growth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/support/table_network.h"

namespace edgedraft {
namespace {

using testing::hashed_logits;
using testing::TableNetwork;
using Path = std::vector<std::uint32_t>;

std::vector<double> log_softmax(const std::vector<float>& logits) {
  double sum = 0.0;
  for (const float x : logits) sum += std::exp(x);
  std::vector<double> result;
  for (const float x : logits) result.push_back(x - std::log(sum));
  return result;
}

// Scores of all paths of up to `depth` tokens below `committed`.
void enumerate(const TableNetwork::Logits& logits, const Path& committed, const Path& path,
               double score, std::uint32_t depth, std::map<Path, double>& scores) {
  if (path.size() == depth) return;
  Path tokens = committed;
  tokens.insert(tokens.end(), path.begin(), path.end());
  const std::vector<double> log_probs = log_softmax(logits(tokens));
  for (std::uint32_t token = 0; token < log_probs.size(); ++token) {
    Path child = path;
    child.push_back(token);
    scores[child] = score + log_probs[token];
    enumerate(logits, committed, child, scores[child], depth, scores);
  }
}

std::vector<Path> paths_of(const DraftTree& tree) {
  std::vector<Path> paths(tree.row_count());
  for (std::uint32_t row = 1; row < tree.row_count(); ++row) {
    paths[row] = paths[tree.parent(row)];
    paths[row].push_back(tree.token(row));
  }
  paths.erase(paths.begin());
  return paths;
}

TEST(TreeGrowthTest, KeepsTheBestOfAllPathsWhenEveryCandidateIsTried) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto logits = hashed_logits(4, seed);
    TableNetwork network(4, logits);
    const Path committed{1, 2, 3};
    network.commit(committed);
    // Breadth 16 holds all 4 + 16 candidates of the first two levels.
    const TreeShape shape{.breadth = 16, .depth = 3, .nodes = 15};
    std::vector<Path> grown = paths_of(grow_tree(network, shape));

    std::map<Path, double> scores;
    enumerate(logits, committed, {}, 0.0, 3, scores);
    std::vector<std::pair<double, Path>> order;
    for (const auto& [path, score] : scores) order.emplace_back(-score, path);
    std::sort(order.begin(), order.end());
    std::vector<Path> expected;
    for (std::size_t i = 0; i < 15; ++i) expected.push_back(order[i].second);
    std::sort(expected.begin(), expected.end());
    std::sort(grown.begin(), grown.end());
    EXPECT_EQ(grown, expected) << "seed " << seed;
  }
}

TEST(TreeGrowthTest, AChainFollowsTheLikeliestTokens) {
  const auto logits = hashed_logits(50, 9);
  TableNetwork network(50, logits);
  Path tokens{7};
  network.commit(tokens);
  const DraftTree chain = grow_tree(network, chain_shape(4));
  ASSERT_EQ(chain.node_count(), 4u);
  for (std::uint32_t row = 1; row <= 4; ++row) {
    const auto row_logits = logits(tokens);
    const auto best = std::max_element(row_logits.begin(), row_logits.end()) - row_logits.begin();
    EXPECT_EQ(chain.token(row), static_cast<std::uint32_t>(best));
    EXPECT_EQ(chain.parent(row), row - 1);
    tokens.push_back(chain.token(row));
  }
}

TEST(TreeGrowthTest, TheDefaultTreeHas62NodesOf328AndSixLevels) {
  TableNetwork network(100, hashed_logits(100, 3));
  const Path committed{5, 6};
  network.commit(committed);
  const DraftTree tree = grow_tree(network, {});
  EXPECT_EQ(tree.node_count(), 62u);
  const auto depths = tree.depths();
  EXPECT_LE(*std::max_element(depths.begin(), depths.end()), 6u);
}

TEST(TreeGrowthTest, SiblingsDifferAndParentsComeFirst) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    TableNetwork network(12, hashed_logits(12, seed));
    const Path committed{1};
    network.commit(committed);
    std::vector<Path> paths = paths_of(grow_tree(network, {}));
    std::sort(paths.begin(), paths.end());
    EXPECT_EQ(std::adjacent_find(paths.begin(), paths.end()), paths.end());
  }
}

// Every token certain to the last bit: all scores tie at each level, and a child ties its parent.
TEST(TreeGrowthTest, TiesNeverOrphanANode) {
  TableNetwork network(8, [](std::span<const std::uint32_t>) {
    std::vector<float> row(8, -1e30f);
    row[3] = 0.0f;
    return row;
  });
  const Path committed{3};
  network.commit(committed);
  const DraftTree tree = grow_tree(network, {.breadth = 1, .depth = 6, .nodes = 4});
  EXPECT_EQ(paths_of(tree).back(), (Path{3, 3, 3, 3}));
}

TEST(TreeGrowthTest, ASmallVocabularyLimitsTheBreadth) {
  TableNetwork network(2, hashed_logits(2, 1));
  const Path committed{0};
  network.commit(committed);
  const DraftTree tree = grow_tree(network, {.breadth = 8, .depth = 2, .nodes = 62});
  EXPECT_EQ(tree.node_count(), 6u);
}

TEST(TreeGrowthTest, ShapesBeyondTheLimitsAreInvalid) {
  EXPECT_TRUE(valid(TreeShape{}));
  EXPECT_TRUE(valid(chain_shape(32)));
  EXPECT_FALSE(valid({.breadth = 0, .depth = 1, .nodes = 1}));
  EXPECT_FALSE(valid({.breadth = 8, .depth = 6, .nodes = 256}));
  EXPECT_FALSE(valid({.breadth = 32, .depth = 32, .nodes = 62}));
}

}  // namespace
}  // namespace edgedraft
