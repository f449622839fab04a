#include "shared/speculative/draft_tree.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace edgedraft {
namespace {

// root - 1 - 3
//      \ 2 - 4 - 5
DraftTree two_branches() {
  DraftTree tree;
  tree.add(10, 0);
  tree.add(20, 0);
  tree.add(11, 1);
  tree.add(21, 2);
  tree.add(22, 4);
  return tree;
}

TEST(DraftTreeTest, DepthIsDistanceFromRoot) {
  EXPECT_EQ(two_branches().depths(), (std::vector<std::uint32_t>{0, 1, 1, 2, 2, 3}));
}

TEST(DraftTreeTest, RowSeesItselfAndItsAncestorsOnly) {
  const std::vector<AncestorMask> masks = two_branches().masks();
  const std::vector<std::vector<std::uint32_t>> seen{{0},       {0, 1},    {0, 2},
                                                     {0, 1, 3}, {0, 2, 4}, {0, 2, 4, 5}};
  for (std::uint32_t row = 0; row < seen.size(); ++row) {
    for (std::uint32_t other = 0; other < kMaskRowsMax; ++other) {
      const bool expected = std::find(seen[row].begin(), seen[row].end(), other) != seen[row].end();
      EXPECT_EQ(masks[row].test(other), expected) << row << " sees " << other;
    }
  }
}

TEST(DraftTreeTest, HoldsAsManyNodesAsMaskRows) {
  DraftTree tree;
  for (std::uint32_t i = 0; i < kTreeNodesMax; ++i) tree.add(i, i);
  EXPECT_EQ(tree.row_count(), kMaskRowsMax);
  EXPECT_EQ(tree.depths().back(), kTreeNodesMax);
  EXPECT_TRUE(tree.masks().back().test(kMaskRowsMax - 1));
}

TEST(DraftTreeTest, CompleteHintsRoundTripTreeWithoutDeadNodes) {
  const std::vector<HintNode> hints = complete_hints(two_branches());
  EXPECT_EQ(hints, (std::vector<HintNode>{{10, 0}, {20, 0}, {11, 2}, {21, 2}, {22, 1}}));
  EXPECT_EQ(tree_of(hints, 3, 23), two_branches());
  EXPECT_EQ(complete_hints(tree_of(hints, 2, 23)),
            (std::vector<HintNode>{{10, 0}, {20, 0}, {11, 2}, {21, 2}}));
  EXPECT_EQ(complete_hints(tree_of(hints, 3, 20)), (std::vector<HintNode>{{10, 0}, {11, 1}}));
  EXPECT_TRUE(tree_of(hints, 0, 23).empty());
}

}  // namespace
}  // namespace edgedraft
