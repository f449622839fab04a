// N-gram tables follow a text exactly, and trees hold what a linear search of the text finds.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "shared/base/random.h"
#include "shared/drafting/ngram/ngram_drafter.h"
#include "shared/drafting/ngram/ngram_table.h"
#include "tests/support/random_tokens.h"
#include "tests/support/tree_paths.h"

namespace edgedraft {
namespace {

using testing::paths_of;
using testing::random_tokens;
using testing::same_scores;
using Tokens = std::vector<std::uint32_t>;

// Reference: ends of `context` that a token follows, by linear search.
Tokens search(const Tokens& text, const Tokens& context) {
  Tokens positions;
  for (std::size_t end = context.size(); end < text.size(); ++end) {
    if (std::equal(context.begin(), context.end(),
                   text.begin() + static_cast<std::ptrdiff_t>(end - context.size()))) {
      positions.push_back(static_cast<std::uint32_t>(end));
    }
  }
  return positions;
}

Tokens followers(const NgramTable& table, const Tokens& context) {
  const auto positions = table.followers(context);
  return {positions.begin(), positions.end()};
}

NgramTable table_of(const Tokens& text) {
  NgramTable table;
  table.append(text);
  return table;
}

TEST(NgramTableTest, MatchesTextSearchAfterEveryAppendAndTruncate) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    const auto vocabulary = 1 + static_cast<std::uint32_t>(random.below(5));
    NgramTable table;
    Tokens text;
    for (int step = 0; step < 25; ++step) {
      if (random.below(3) > 0) {
        const Tokens more = random_tokens(random, random.below(12), vocabulary);
        table.append(more);
        text.insert(text.end(), more.begin(), more.end());
      } else {
        text.resize(random.below(text.size() + 1));
        table.truncate(static_cast<std::uint32_t>(text.size()));
      }
      ASSERT_TRUE(std::ranges::equal(table.tokens(), text));
      for (int look = 0; look < 20; ++look) {
        const Tokens context =
            random_tokens(random, 1 + random.below(NgramTable::kOrderMax), vocabulary);
        ASSERT_EQ(followers(table, context), search(text, context)) << "round " << round;
      }
    }
  }
}

TEST(NgramTableTest, RolledBackTableMatchesFreshTable) {
  Random random(2);
  for (int round = 0; round < 300; ++round) {
    const Tokens text = random_tokens(random, 1 + random.below(60), 4);
    NgramTable table = table_of(text);
    const auto count = 1 + static_cast<std::uint32_t>(random.below(text.size()));
    table.truncate(count);
    const Tokens more = random_tokens(random, random.below(8), 4);
    table.append(more);
    Tokens now(text.begin(), text.begin() + count);
    now.insert(now.end(), more.begin(), more.end());
    const NgramTable fresh = table_of(now);
    for (const auto tree : {lookup_tree, adaptive_tree}) {
      for (const TreeShape& shape : {TreeShape{}, chain_shape(5)}) {
        ASSERT_EQ(tree(table, shape), tree(fresh, shape)) << "round " << round;
        ASSERT_TRUE(same_scores(tree(table, shape), tree(fresh, shape)));
      }
    }
  }
}

TEST(NgramTreesTest, FitShapeAndProposeOnlyObservedFollowers) {
  Random random(3);
  for (int round = 0; round < 1000; ++round) {
    const Tokens text = random_tokens(random, 1 + random.below(80), 6);
    const NgramTable table = table_of(text);
    const TreeShape shape{.breadth = 1 + static_cast<std::uint32_t>(random.below(4)),
                          .depth = 1 + static_cast<std::uint32_t>(random.below(12)),
                          .nodes = 1 + static_cast<std::uint32_t>(random.below(30))};
    for (const auto grow : {lookup_tree, adaptive_tree}) {
      const DraftTree tree = grow(table, shape);
      ASSERT_LE(tree.node_count(), shape.nodes);
      std::vector<std::uint32_t> children(tree.row_count(), 0);
      const auto depths = tree.depths();
      for (std::uint32_t row = 1; row < tree.row_count(); ++row) {
        ASSERT_LE(++children[tree.parent(row)], shape.breadth);
        ASSERT_LE(depths[row], shape.copied_depth());
        ASSERT_LT(tree.score(row), tree.score(tree.parent(row)))
            << "every score is below certainty";
        ASSERT_EQ(tree.child(tree.parent(row), tree.token(row)), row) << "no duplicate siblings";
        const Tokens pair{tree.parent(row) == 0 ? text.back() : tree.token(tree.parent(row)),
                          tree.token(row)};
        ASSERT_NE(std::search(text.begin(), text.end(), pair.begin(), pair.end()), text.end());
      }
    }
  }
}

TEST(NgramTreesTest, LookupCopiesContinuationOfLongestMatch) {
  // "7 8 9" occurs at the start, "9" also after 5.
  const NgramTable table = table_of({7, 8, 9, 1, 2, 3, 5, 9, 4, 6, 6, 7, 8, 9});
  const DraftTree chain = lookup_tree(table, chain_shape(4));
  EXPECT_EQ(paths_of(chain).back(), (Tokens{1, 2, 3, 5}));
  const DraftTree two = lookup_tree(table, {.breadth = 2, .depth = 3, .nodes = 6, .copied = 0});
  EXPECT_EQ(paths_of(two), (std::vector<Tokens>{{1}, {1, 2}, {1, 2, 3}, {4}, {4, 6}, {4, 6, 6}}));
  EXPECT_GT(two.score(1), two.score(4)) << "a longer match scores higher";
  EXPECT_EQ(lookup_tree(table, chain_shape(30)).node_count(), 10u) << "at most ten tokens";
  EXPECT_TRUE(lookup_tree(table_of({1, 2, 3}), {}).empty());
}

TEST(NgramTreesTest, AdaptivePrefersMoreFrequentFollowers) {
  const NgramTable table = table_of({1, 2, 1, 3, 1, 2, 4, 1});
  const DraftTree tree = adaptive_tree(table, {.breadth = 2, .depth = 2, .nodes = 10, .copied = 0});
  EXPECT_EQ(tree.token(tree.child(0, 2)), 2u);
  EXPECT_GT(tree.score(tree.child(0, 2)), tree.score(tree.child(0, 3)));
  EXPECT_EQ(paths_of(adaptive_tree(table, chain_shape(2))), (std::vector<Tokens>{{2}, {2, 4}}))
      << "the newer of two followers of 1 2";
  EXPECT_TRUE(adaptive_tree(table_of({1, 2, 3}), {}).empty());
}

TEST(NgramDrafterTest, CopiesTenTokensBelowShallowDefaultDepth) {
  Tokens text(30);
  std::iota(text.begin(), text.end(), 100);
  text.insert(text.end(), {100, 101, 102});
  NgramDrafter drafter(lookup_tree, 1000);
  drafter.append(text);
  const auto depth = [&](const TreeShape& shape) {
    const auto depths = drafter.draft(shape).depths();
    return *std::ranges::max_element(depths);
  };
  EXPECT_EQ(depth({}), 10u);
  EXPECT_EQ(depth(chain_shape(4)), 4u) << "the requested depth";
  TreeShape last;
  last.limit(3);
  EXPECT_EQ(depth(last), 3u) << "the answer ends at this depth";
}

TEST(NgramDrafterTest, FollowsConversationUpToItsContext) {
  NgramDrafter drafter(adaptive_tree, 8);
  drafter.append(Tokens{1, 2, 3, 1, 2});
  EXPECT_EQ(paths_of(drafter.draft(chain_shape(5))), (std::vector<Tokens>{{3}, {3, 1}, {3, 1, 2}}))
      << "three more tokens fit";
  drafter.truncate(4);
  EXPECT_EQ(paths_of(drafter.draft(chain_shape(2))), (std::vector<Tokens>{{2}, {2, 3}}));
  drafter.append(Tokens{5, 5, 5, 5});
  EXPECT_EQ(drafter.token_count(), 8u);
  EXPECT_TRUE(drafter.draft(chain_shape(5)).empty());
  EXPECT_TRUE(drafter.next_logits().empty()) << "a table cannot write offline";
}

}  // namespace
}  // namespace edgedraft
