// Compares tree operations with simple oracles: sets of paths with scores.
#include "shared/speculative/tree_operations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "shared/base/random.h"
#include "tests/support/tree_paths.h"

namespace edgedraft {
namespace {

using testing::Path;
using testing::paths_of;
using testing::scores_of;

// Few tokens and coarse scores, so that paths meet and scores tie; siblings differ.
DraftTree random_tree(Random& random, std::uint32_t nodes_max) {
  DraftTree tree;
  const auto nodes = static_cast<std::uint32_t>(random.below(nodes_max + 1));
  for (std::uint32_t tries = 0; tries < 3 * nodes && tree.node_count() < nodes; ++tries) {
    const auto parent = static_cast<std::uint32_t>(random.below(tree.row_count()));
    const auto token = static_cast<std::uint32_t>(random.below(5));
    if (tree.child(parent, token) != 0) continue;
    tree.add(token, parent, tree.score(parent) - static_cast<float>(random.below(4)) / 2);
  }
  return tree;
}

void expect_well_formed(const DraftTree& tree) {
  for (std::uint32_t row = 1; row < tree.row_count(); ++row) {
    ASSERT_LT(tree.parent(row), row);
    ASSERT_LE(tree.score(row), tree.score(tree.parent(row)));
  }
  auto paths = paths_of(tree);
  std::ranges::sort(paths);
  ASSERT_EQ(std::adjacent_find(paths.begin(), paths.end()), paths.end());
}

// Repeatedly takes the best node whose parent is taken; ties go to the earliest.
std::vector<std::uint32_t> greedy_rows(const DraftTree& tree, std::uint32_t nodes) {
  std::vector<bool> taken(tree.row_count(), false);
  taken[0] = true;
  std::vector<std::uint32_t> rows;
  while (rows.size() < std::min(nodes, tree.node_count())) {
    std::uint32_t best = 0;
    for (std::uint32_t row = 1; row < tree.row_count(); ++row) {
      if (taken[row] || !taken[tree.parent(row)]) continue;
      if (best == 0 || tree.score(row) > tree.score(best)) best = row;
    }
    taken[best] = true;
    rows.push_back(best);
  }
  std::ranges::sort(rows);
  return rows;
}

TEST(TreeOperationsTest, CutKeepsBestNodesWithAncestorsInOrder) {
  Random random(1);
  for (int round = 0; round < 3000; ++round) {
    const DraftTree tree = random_tree(random, 40);
    const auto nodes = static_cast<std::uint32_t>(random.below(45));
    const DraftTree kept = cut(tree, nodes);
    expect_well_formed(kept);
    std::vector<Path> expected;
    for (const std::uint32_t row : greedy_rows(tree, nodes)) {
      expected.push_back(paths_of(tree)[row - 1]);
    }
    ASSERT_EQ(paths_of(kept), expected) << "round " << round;
    for (const auto& [path, score] : scores_of(kept)) ASSERT_EQ(score, scores_of(tree)[path]);
  }
}

TEST(TreeOperationsTest, MergeIsUnionOfPathsWithBetterScore) {
  Random random(2);
  for (int round = 0; round < 3000; ++round) {
    const DraftTree a = random_tree(random, 30);
    const DraftTree b = random_tree(random, 30);
    std::map<Path, Score> expected = scores_of(a);
    for (const auto& [path, score] : scores_of(b)) {
      const auto [place, is_new] = expected.try_emplace(path, score);
      if (!is_new) place->second = std::max(place->second, score);
    }
    const DraftTree whole = merge(a, b, kTreeNodesMax);
    expect_well_formed(whole);
    ASSERT_EQ(scores_of(whole), expected) << "round " << round;

    const auto nodes = static_cast<std::uint32_t>(random.below(40));
    const DraftTree some = merge(a, b, nodes);
    ASSERT_EQ(some, cut(whole, nodes)) << "round " << round;
    ASSERT_EQ(some.node_count(), std::min<std::size_t>(nodes, expected.size()));
    ASSERT_EQ(merge(a, {}, nodes), cut(a, nodes));
    ASSERT_EQ(merge({}, a, nodes), cut(a, nodes));
    ASSERT_EQ(merge(a, a, nodes), cut(a, nodes));
  }
}

TEST(TreeOperationsTest, MergeOfFullTreesKeepsLimit) {
  DraftTree a;
  DraftTree b;
  for (std::uint32_t i = 0; i < kTreeNodesMax; ++i) {
    a.add(i, 0, -1.0f);
    b.add(1000 + i, i, 0.0f);
  }
  const DraftTree both = merge(a, b, kTreeNodesMax);
  EXPECT_EQ(both, b) << "the nodes with better scores";
  EXPECT_EQ(both.depths().back(), kTreeNodesMax);
}

TEST(ScoreTest, BytesKeepOrderInStepsOfAnEighthNat) {
  const auto byte_of_score = [](Score score) { return byte_of(to_steps(score)); };
  EXPECT_EQ(byte_of_score(0.0f), 0);
  EXPECT_EQ(byte_of_score(-1.0f), 8);
  EXPECT_EQ(byte_of_score(kScoreMin), 255);
  EXPECT_EQ(byte_of_score(std::nanf("")), 255);
  EXPECT_EQ(byte_of_score(-INFINITY), 255);
  EXPECT_EQ(byte_of_score(0.5f), 0) << "clamped to certainty";
  for (std::uint32_t steps = 0; steps < 1000; ++steps)
    EXPECT_EQ(to_steps(from_steps(steps)), steps);
  EXPECT_EQ(byte_of(256), 255);
  Random random(4);
  for (int i = 0; i < 10'000; ++i) {
    const auto a = static_cast<float>(-40.0 * random.uniform());
    const auto b = static_cast<float>(-40.0 * random.uniform());
    EXPECT_LE(byte_of_score(std::max(a, b)), byte_of_score(std::min(a, b)));
    EXPECT_LE(std::abs(from_steps(to_steps(a)) - a), 0.0625f + 1e-5f);
  }
}

TEST(ScoreTest, TreeClampsScoresThatWouldOrphanNode) {
  DraftTree tree;
  tree.add(1, 0, 3.0f);
  tree.add(2, 1, std::nanf(""));
  tree.add(3, 2, -1.0f);
  tree.add(4, 1);
  EXPECT_EQ(tree.score(1), 0.0f);
  EXPECT_EQ(tree.score(2), kScoreMin);
  EXPECT_EQ(tree.score(3), kScoreMin);
  EXPECT_EQ(tree.score(4), 0.0f);
}

}  // namespace
}  // namespace edgedraft
