#include "server/hints/hint_tree.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "shared/base/random.h"
#include "shared/types/prefix_hash.h"

namespace edgedraft::server {
namespace {

using Tokens = std::vector<std::uint32_t>;

constexpr HintTree::Limits kLimits{.nodes_max = 100, .vocabulary_count = 50};
const Tokens kPrompt{7, 8, 9};

// Hints that follow `text`.
wire::Hints hints_behind(const Tokens& text, std::uint32_t first,
                         const std::vector<HintNode>& nodes) {
  return {.round = 1,
          .first = first,
          .position = static_cast<std::uint32_t>(text.size()),
          .prefix_hash = prefix_hash(text),
          .nodes = nodes};
}

Tokens joined(Tokens text, const Tokens& more) {
  text.insert(text.end(), more.begin(), more.end());
  return text;
}

// The tree's paths from its root.
std::set<Tokens> paths_of(const HintTree& hints) {
  const DraftTree tree = hints.best(kTreeNodesMax);
  std::set<Tokens> paths;
  for (std::uint32_t row = 1; row <= tree.node_count(); ++row) {
    Tokens path;
    for (std::uint32_t r = row; r != 0; r = tree.parent(r))
      path.insert(path.begin(), tree.token(r));
    paths.insert(path);
  }
  return paths;
}

// The scores of its nodes relative to the root, best first.
std::vector<ScoreSteps> scores_of(const HintTree& hints) {
  const DraftTree tree = hints.best(kTreeNodesMax);
  std::vector<ScoreSteps> scores;
  for (std::uint32_t row = 1; row <= tree.node_count(); ++row) {
    scores.push_back(to_steps(tree.score(row)));
  }
  return scores;
}

TEST(HintTreeTest, AttachesHintsToEarlierHintsOrText) {
  HintTree tree(kPrompt, kLimits);
  tree.add(hints_behind(kPrompt, 1, {{1, 0}, {2, 1}, {3, 2}}));
  tree.add(hints_behind(kPrompt, 4, {{4, 3}, {5, 0}}));
  EXPECT_EQ(paths_of(tree), (std::set<Tokens>{{1}, {1, 2}, {1, 3}, {1, 4}, {5}}));
  EXPECT_EQ(tree.last_id(), 5u);
}

TEST(HintTreeTest, SkipsPassedHintsAndDropsContradictedOnes) {
  HintTree tree(kPrompt, kLimits);
  tree.add(hints_behind(kPrompt, 1, {{1, 0}, {2, 1}, {3, 1}, {4, 2}}));  // 1, 1-2, 1-2-3, 1-2-4
  tree.advance(Tokens{1, 2});
  EXPECT_EQ(paths_of(tree), (std::set<Tokens>{{3}, {4}}));
  // Below an accepted node, and below one that was not accepted.
  tree.add(hints_behind(kPrompt, 5, {{6, 3}, {7, 1}}));
  EXPECT_EQ(paths_of(tree), (std::set<Tokens>{{3}, {4}, {6}, {6, 7}}));
  tree.advance(Tokens{9});
  EXPECT_EQ(tree.node_count(), 0u);
  tree.add(hints_behind(kPrompt, 7, {{8, 1}}));
  EXPECT_EQ(tree.node_count(), 0u) << "its parent was dropped";
  EXPECT_EQ(tree.counts(), (HintCounts{.taken = 6, .unknown = 1}));
}

TEST(HintTreeTest, FollowsHintsAlongTokensChosenMeanwhile) {
  HintTree tree(kPrompt, kLimits);
  tree.advance(Tokens{1, 2});
  tree.add(hints_behind(kPrompt, 1, {{1, 0}, {2, 1}, {3, 1}, {5, 3}}));
  EXPECT_EQ(paths_of(tree), (std::set<Tokens>{{3}}));
  EXPECT_EQ(tree.counts(), (HintCounts{.taken = 1, .passed = 2, .contradicted = 1}));
}

TEST(HintTreeTest, CountsHintsForOtherTextsAsUnknown) {
  HintTree tree(kPrompt, kLimits);
  tree.advance(Tokens{1});
  const Tokens another{7, 8, 1};
  tree.add(hints_behind(another, 1, {{1, 0}}));
  tree.add(hints_behind({7, 8}, 2, {{1, 0}}));                   // before the run
  tree.add(hints_behind(joined(kPrompt, {1, 2}), 3, {{1, 0}}));  // beyond the accepted text
  wire::Hints far = hints_behind(kPrompt, 4, {{1, 0}});
  far.position = kContextCountMax;
  tree.add(far);
  EXPECT_EQ(tree.node_count(), 0u);
  EXPECT_EQ(tree.counts(), (HintCounts{.unknown = 4}));
}

TEST(HintTreeTest, IgnoresTokensOutsideVocabulary) {
  HintTree tree(kPrompt, kLimits);
  tree.add(hints_behind(kPrompt, 1, {{50, 0}, {1, 1}, {49, 0}}));
  EXPECT_EQ(paths_of(tree), (std::set<Tokens>{{49}}));
}

TEST(HintTreeTest, MergesDuplicatePaths) {
  HintTree tree(kPrompt, kLimits);
  tree.add(hints_behind(kPrompt, 1, {{1, 0}, {1, 0}, {2, 2}, {2, 2}}));
  EXPECT_EQ(paths_of(tree), (std::set<Tokens>{{1}, {1, 2}}));
  EXPECT_EQ(tree.node_count(), 2u);
}

TEST(HintTreeTest, KeepsBestNodesScoredFromRoot) {
  HintTree tree(kPrompt, {.nodes_max = 3, .vocabulary_count = 50});
  tree.add(hints_behind(kPrompt, 1, {{1, 0, 8}, {2, 1, 8}, {3, 0, 30}, {4, 3, 0}, {5, 1, 40}}));
  EXPECT_EQ(paths_of(tree), (std::set<Tokens>{{1}, {1, 2}, {1, 4}}));
  EXPECT_EQ(scores_of(tree), (std::vector<ScoreSteps>{8, 8, 16}));
  EXPECT_EQ(tree.counts().evicted, 2u);
  tree.advance(Tokens{1});
  EXPECT_EQ(scores_of(tree), (std::vector<ScoreSteps>{0, 8}));
  EXPECT_EQ(tree.best(1).token(1), 4u);
}

// A flood of arbitrary hints: the tree stays within its bounds.
TEST(HintTreeTest, StaysBoundedUnderFlood) {
  HintTree tree(kPrompt, {.nodes_max = 64, .vocabulary_count = 50});
  Random random(1);
  for (std::uint32_t message = 0; message < 500; ++message) {
    std::vector<HintNode> parts;
    for (int i = 0; i < 100; ++i) {
      parts.push_back({.token = static_cast<std::uint32_t>(random.below(60)),
                       .distance = static_cast<std::uint16_t>(random.below(100)),
                       .score = static_cast<std::uint8_t>(random.below(256))});
    }
    tree.add(
        hints_behind(kPrompt, static_cast<std::uint32_t>(100 + random.below(1u << 30)), parts));
    ASSERT_LE(tree.node_count(), 64u + 16u);
  }
}

// Many messages to a full tree share the cost of one eviction.
TEST(HintTreeTest, EvictsInBatches) {
  HintTree tree(kPrompt, {.nodes_max = 40, .vocabulary_count = 100});
  const auto add = [&](std::uint32_t id, std::uint8_t score) {
    return tree.add(hints_behind(kPrompt, id, {{id, 0, score}}));
  };
  for (std::uint32_t id = 1; id <= 40; ++id) {
    EXPECT_EQ(add(id, 10), (std::vector<ScoreSteps>{10}));
  }
  for (std::uint32_t id = 41; id <= 50; ++id) {
    add(id, 20);
    EXPECT_EQ(tree.counts().evicted, 0u) << id;
  }
  // The best nodes are the same however many others there are.
  EXPECT_EQ(tree.best(40).token(40), 40u);
  add(51, 5);
  EXPECT_EQ(tree.counts().evicted, 11u);
  EXPECT_EQ(tree.node_count(), 40u);
  EXPECT_EQ(tree.best(1).token(1), 51u);
  EXPECT_TRUE(add(52, 0).size() == 1 && add(52, 0).empty()) << "a repeated hint is not new";
}

// The definition implemented directly: every hint is a whole text.
class BruteForceHints {
 public:
  explicit BruteForceHints(Tokens text) : text_(std::move(text)), base_(text_.size()) {}

  void add(const wire::Hints& hints) {
    for (std::size_t i = 0; i < hints.nodes.size(); ++i) {
      const std::uint32_t id = hints.first + static_cast<std::uint32_t>(i);
      if (text_of_.contains(id)) continue;
      Tokens text;
      if (hints.nodes[i].distance == 0) {
        const bool known = hints.position >= base_ && hints.position <= text_.size();
        if (!known) continue;
        text.assign(text_.begin(), text_.begin() + hints.position);
        if (prefix_hash(text) != hints.prefix_hash) continue;
      } else {
        const auto parent = text_of_.find(id - hints.nodes[i].distance);
        if (parent == text_of_.end()) continue;
        text = parent->second;
      }
      text.push_back(hints.nodes[i].token);
      if (fits(text)) text_of_[id] = text;
    }
  }
  void advance(const Tokens& tokens) {
    text_ = joined(text_, tokens);
    std::erase_if(text_of_, [&](const auto& entry) { return !fits(entry.second); });
  }
  std::set<Tokens> paths() const {
    std::set<Tokens> paths;
    for (const auto& [id, text] : text_of_) {
      if (text.size() <= text_.size()) continue;
      paths.insert(Tokens(text.begin() + static_cast<std::ptrdiff_t>(text_.size()), text.end()));
    }
    return paths;
  }
  const Tokens& text() const { return text_; }

 private:
  bool fits(const Tokens& text) const {
    const std::size_t common = std::min(text.size(), text_.size());
    return std::equal(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(common),
                      text_.begin());
  }

  Tokens text_;
  std::size_t base_;
  std::map<std::uint32_t, Tokens> text_of_;
};

// Messages arrive late, twice, out of order or not at all, with any older text as their base.
TEST(HintTreeTest, MatchesDefinitionUnderAnySchedule) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    HintTree tree(kPrompt, {.nodes_max = 200, .vocabulary_count = 50});
    BruteForceHints expected(kPrompt);
    std::vector<wire::Hints> under_way;
    std::uint32_t next_id = 1;
    for (int step = 0; step < 30; ++step) {
      if (random.below(3) > 0 && next_id < 150) {
        const std::size_t known =
            kPrompt.size() + random.below(expected.text().size() - kPrompt.size() + 1);
        const Tokens text(expected.text().begin(),
                          expected.text().begin() + static_cast<std::ptrdiff_t>(known));
        std::vector<HintNode> parts;
        for (std::uint64_t count = 1 + random.below(6); count > 0; --count) {
          const std::uint64_t id = next_id + parts.size();
          parts.push_back({.token = static_cast<std::uint32_t>(1 + random.below(3)),
                           .distance = static_cast<std::uint16_t>(
                               random.below(std::min<std::uint64_t>(id, 12))),
                           .score = static_cast<std::uint8_t>(random.below(9))});
        }
        under_way.push_back(hints_behind(text, next_id, parts));
        next_id += static_cast<std::uint32_t>(parts.size());
      }
      if (!under_way.empty() && random.below(2) == 0) {
        const auto chosen =
            under_way.begin() + static_cast<std::ptrdiff_t>(random.below(under_way.size()));
        tree.add(*chosen);
        expected.add(*chosen);
        if (random.below(3) > 0) under_way.erase(chosen);
      }
      if (random.below(4) == 0) {
        Tokens tokens;
        for (std::uint64_t count = 1 + random.below(3); count > 0; --count) {
          tokens.push_back(static_cast<std::uint32_t>(1 + random.below(3)));
        }
        tree.advance(tokens);
        expected.advance(tokens);
      }
      ASSERT_EQ(paths_of(tree), expected.paths()) << "seed " << seed << " step " << step;
    }
  }
}

}  // namespace
}  // namespace edgedraft::server
