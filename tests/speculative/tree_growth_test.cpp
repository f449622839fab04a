#include "shared/speculative/tree_growth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "shared/drafting/network_drafter.h"
#include "tests/support/table_network.h"
#include "tests/support/tree_paths.h"

namespace edgedraft {
namespace {

using testing::hashed_logits;
using testing::Path;
using testing::paths_of;
using testing::scores_of;
using testing::TableNetwork;

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

TEST(TreeGrowthTest, KeepsBestPathsIfEveryCandidateIsExpanded) {
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

// Forbidden tokens appear in no tree and take no slot among the expanded nodes.
TEST(TreeGrowthTest, OmitsForbiddenTokens) {
  const auto logits = hashed_logits(40, 3);
  TableNetwork network(40, logits);
  const Path committed{1, 2, 3};
  network.commit(committed);
  TreeGrowth growth({.breadth = 6, .depth = 4, .nodes = 20});
  // Tokens rise by at most ten along a path.
  const auto may = [](std::span<const std::uint32_t> path, std::uint32_t token) {
    const std::uint32_t last = path.empty() ? 0 : path.back();
    return token >= last && token <= last + 10;
  };
  growth.set_choice([&](std::span<const std::uint32_t> path, std::vector<DraftGuess>& guesses) {
    std::erase_if(guesses, [&](const DraftGuess& guess) { return !may(path, guess.token); });
  });
  grow(network, growth);
  const auto paths = paths_of(growth.tree());
  ASSERT_GT(paths.size(), 3u);
  for (const Path& path : paths) {
    for (std::size_t i = 0; i < path.size(); ++i) {
      EXPECT_TRUE(may(std::span(path).first(i), path[i]));
    }
  }
}

TEST(TreeGrowthTest, ChainFollowsLikeliestTokens) {
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

TEST(TreeGrowthTest, DefaultTreeHas62NodesInSixLevels) {
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

// Every token is certain to the last bit: all scores tie at each level, and a child ties its
// parent.
TEST(TreeGrowthTest, TiesOrphanNoNode) {
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

TEST(TreeGrowthTest, SmallVocabularyLimitsBreadth) {
  TableNetwork network(2, hashed_logits(2, 1));
  const Path committed{0};
  network.commit(committed);
  const DraftTree tree = grow_tree(network, {.breadth = 8, .depth = 2, .nodes = 62});
  EXPECT_EQ(tree.node_count(), 6u);
}

TreeShape random_shape(Random& random) {
  for (;;) {
    const TreeShape shape{.breadth = 1 + static_cast<std::uint32_t>(random.below(9)),
                          .depth = 1 + static_cast<std::uint32_t>(random.below(7)),
                          .nodes = 1 + static_cast<std::uint32_t>(random.below(70))};
    if (valid(shape)) return shape;
  }
}

// EAGLE-2 as published, on paths: no draft rows, no masks, no interruption.
DraftTree plain_growth(const TableNetwork::Logits& logits, const Path& committed,
                       const TreeShape& shape) {
  struct Found {
    Path path;
    std::uint32_t parent;  // index + 1
    float score;
  };
  TableNetwork network(static_cast<std::uint32_t>(logits(committed).size()), logits);
  std::vector<Found> found;
  std::vector<std::uint32_t> level{0};
  const auto best_first = [&](std::uint32_t a, std::uint32_t b) {
    return found[a - 1].score != found[b - 1].score ? found[a - 1].score > found[b - 1].score
                                                    : a < b;
  };
  for (std::uint32_t depth = 1; depth <= shape.depth; ++depth) {
    std::vector<std::uint32_t> next;
    for (const std::uint32_t parent : level) {
      Path tokens = committed;
      const Path path = parent == 0 ? Path{} : found[parent - 1].path;
      tokens.insert(tokens.end(), path.begin(), path.end());
      network.truncate(0);
      network.commit(tokens);
      const auto count = std::min(shape.breadth, network.vocabulary_count());
      std::vector<std::uint32_t> best(count);
      std::vector<float> log_probs(count);
      network.backend().top_k(
          {.logits = network.logits(), .k = count, .tokens = best, .log_probs = log_probs});
      for (std::uint32_t i = 0; i < count; ++i) {
        const float above = parent == 0 ? 0.0f : found[parent - 1].score;
        Path child = path;
        child.push_back(best[i]);
        found.push_back({.path = child, .parent = parent, .score = log_probs[i] + above});
        next.push_back(static_cast<std::uint32_t>(found.size()));
      }
    }
    std::ranges::sort(next, best_first);
    if (next.size() > shape.breadth) next.resize(shape.breadth);
    std::ranges::sort(next);
    level = next;
  }
  std::vector<std::uint32_t> kept(found.size());
  for (std::uint32_t i = 0; i < kept.size(); ++i) kept[i] = i + 1;
  std::ranges::sort(kept, best_first);
  if (kept.size() > shape.nodes) kept.resize(shape.nodes);
  std::ranges::sort(kept);
  DraftTree tree;
  std::map<std::uint32_t, std::uint32_t> row_of{{0, 0}};
  for (const std::uint32_t id : kept) {
    row_of[id] = tree.add(found[id - 1].path.back(), row_of.at(found[id - 1].parent));
  }
  return tree;
}

TEST(TreeGrowthTest, InterruptedGrowthMatchesPlainAlgorithm) {
  Random random(11);
  for (int round = 0; round < 1500; ++round) {
    const auto vocabulary = 2 + static_cast<std::uint32_t>(random.below(12));
    const auto logits = hashed_logits(vocabulary, random.below(1u << 30));
    TableNetwork network(vocabulary, logits);
    const Path committed{1, 0, 1};
    network.commit(committed);
    const TreeShape shape = random_shape(random);
    TreeGrowth growth(shape);
    std::map<Path, Score> before;
    while (!grow(network, growth, {.rows = 1 + static_cast<std::uint32_t>(random.below(6))})) {
      // Found candidates stay, and a tree can be built at any time.
      const auto candidates = scores_of(growth.tree(kTreeNodesMax));
      if (growth.candidate_count() <= kTreeNodesMax) {
        for (const auto& [path, score] : before) ASSERT_EQ(candidates.at(path), score);
        before = candidates;
      }
      ASSERT_LE(growth.tree().node_count(), shape.nodes);
    }
    ASSERT_EQ(growth.tree(), plain_growth(logits, committed, shape)) << "round " << round;
    network.truncate(0);
    network.commit(committed);
    ASSERT_EQ(growth.tree(), grow_tree(network, shape)) << "round " << round;
  }
}

// After a verdict growth keeps everything below the new root and reaches the shape's depth again.
// Every score equals the network's score for the path. The network has lost its draft rows.
TEST(TreeGrowthTest, ContinuesAfterVerdict) {
  Random random(12);
  int kept_something = 0;
  for (int round = 0; round < 600; ++round) {
    const auto vocabulary = 2 + static_cast<std::uint32_t>(random.below(6));
    const auto logits = hashed_logits(vocabulary, random.below(1u << 30));
    TableNetwork network(vocabulary, logits);
    Path committed{1, 0};
    network.commit(committed);
    TreeGrowth growth(random_shape(random));
    for (int verdict = 0; verdict < 4; ++verdict) {
      const TreeShape shape = random_shape(random);
      growth.set_shape(shape);
      grow(network, growth, {.rows = static_cast<std::uint32_t>(random.below(40))});
      growth.limit_depth(kTreeDepthMax);
      const auto before = scores_of(growth.tree(kTreeNodesMax));

      // A path in the tree, or one that leaves it.
      Path path;
      const DraftTree tree = growth.tree();
      if (!tree.empty()) path = paths_of(tree)[random.below(tree.node_count())];
      if (path.empty() || random.below(4) == 0) {
        path.push_back(static_cast<std::uint32_t>(random.below(vocabulary)));
      }
      growth.reroot(path);
      network.truncate(static_cast<std::uint32_t>(committed.size()));
      network.commit(path);
      committed.insert(committed.end(), path.begin(), path.end());

      const auto kept = scores_of(growth.tree(kTreeNodesMax));
      for (const auto& [below, score] : before) {
        if (below.size() <= path.size() || !std::equal(path.begin(), path.end(), below.begin())) {
          continue;
        }
        const Path rest(below.begin() + static_cast<std::ptrdiff_t>(path.size()), below.end());
        ASSERT_TRUE(kept.contains(rest)) << "round " << round;
        ++kept_something;
      }
    }
    while (!grow(network, growth, {.rows = 7})) {
    }
    const DraftTree tree = growth.tree();
    std::map<Path, double> scores;
    enumerate(logits, committed, {}, 0.0, 2, scores);
    for (const auto& [path, score] : scores_of(tree)) {
      if (path.size() > 2) continue;
      ASSERT_NEAR(score, scores.at(path), 1e-4) << "round " << round;
    }
    const auto depths = tree.depths();
    ASSERT_LE(*std::ranges::max_element(depths), growth.shape().depth);
    // The best tokens after the root are present, whatever was kept.
    const auto first = plain_growth(
        logits, committed,
        {.breadth = growth.shape().breadth, .depth = growth.shape().depth, .nodes = 1});
    ASSERT_NE(tree.child(0, first.token(1)), 0u) << "round " << round;
  }
  EXPECT_GT(kept_something, 1000);
}

// A tree that grows on after a verdict along its best path equals a fresh one: every candidate that
// a fresh tree expands is expanded.
TEST(TreeGrowthTest, ReusesCandidatesAfterVerdict) {
  const auto logits = hashed_logits(10, 8);
  TableNetwork network(10, logits);
  const Path committed{3};
  network.commit(committed);
  TreeGrowth growth({.breadth = 4, .depth = 5, .nodes = 20});
  grow(network, growth);
  const std::uint32_t best = growth.tree().token(1);
  growth.reroot(std::array{best});
  network.commit(std::array{best});
  EXPECT_GT(growth.candidate_count(), 4u);
  const auto kept = growth.candidate_count();
  // Only the last level is new, apart from the draft rows above it, which run again.
  grow(network, growth);
  const std::uint32_t asked = (growth.candidate_count() - kept) / 4;
  EXPECT_GT(asked, 0u);
  EXPECT_LT(asked, 17u) << "a fresh tree requests the root and four levels of four";
}

TEST(TreeGrowthTest, AcceptsCandidatesAddedAtOnce) {
  TreeGrowth growth({.breadth = 2, .depth = 3, .nodes = 3});
  const std::uint32_t a = growth.add(5, 0, -0.5f);
  growth.add(6, 0, -3.0f);
  const std::uint32_t b = growth.add(7, a, 0.25f);
  growth.add(8, b, -1.0f);
  growth.finish();
  EXPECT_TRUE(growth.done());
  EXPECT_EQ(paths_of(growth.tree()), (std::vector<Path>{{5}, {5, 7}, {5, 7, 8}}));
  EXPECT_EQ(growth.tree().score(2), -0.5f) << "a child scores at most as much as its parent";
  growth.reroot(std::array{5u, 7u});
  EXPECT_EQ(scores_of(growth.tree()), (std::map<Path, Score>{{{8}, -1.0f}}));
  growth.reroot(std::array{9u});
  EXPECT_TRUE(growth.tree().empty());
  EXPECT_FALSE(growth.done());
}

TEST(TreeGrowthTest, ReportsRanksOfTokensAlongPath) {
  TreeGrowth growth({.breadth = 4, .depth = 3, .nodes = 9});
  growth.add(5, 0, -0.5f);
  const std::uint32_t second = growth.add(6, 0, -1.0f);
  growth.add(7, 0, -2.0f);
  growth.add(8, second, -3.0f);
  growth.add(9, second, -0.1f);
  using Ranks = std::vector<TreeGrowth::Rank>;
  EXPECT_EQ(growth.ranks_along(std::array{5u, 9u}), (Ranks{{0, 3}}))
      << "nothing was proposed below this token";
  EXPECT_EQ(growth.ranks_along(std::array{6u, 8u, 1u}), (Ranks{{1, 3}, {1, 2}}));
  EXPECT_EQ(growth.ranks_along(std::array{6u, 9u}), (Ranks{{1, 3}, {0, 2}}));
  EXPECT_EQ(growth.ranks_along(std::array{1u, 6u}), (Ranks{{TreeGrowth::kNoRank, 3}}));
  EXPECT_EQ(growth.ranks_along({}), Ranks{});
}

TEST(TreeGrowthTest, RequestsAtMostAsManyRowsAsMaskHolds) {
  TreeGrowth growth({.breadth = 32, .depth = 2, .nodes = kTreeNodesMax});
  for (std::uint32_t i = 0; i < 300; ++i) growth.add(i, 0, -1.0f);
  growth.answer(growth.next(), std::array{1000u}, std::array{-1.0f});
  std::uint32_t rows = 0;
  for (std::uint32_t breadth = 32; breadth > 0; --breadth) {
    growth.set_shape({.breadth = breadth,
                      .depth = std::min(32 / breadth + 1, kTreeDepthMax),
                      .nodes = kTreeNodesMax});
    for (GrowthLevel level = growth.next(); !level.empty(); level = growth.next()) {
      const std::vector<std::uint32_t> tokens(level.nodes.size() * 40, 7);
      growth.answer(level, tokens, std::vector<float>(tokens.size(), -1.0f));
      rows += static_cast<std::uint32_t>(level.nodes.size());
      ASSERT_LE(rows, kMaskRowsMax);
    }
  }
  EXPECT_EQ(growth.tree().node_count(), kTreeNodesMax);
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
