#include "shared/speculative/verification.h"

#include <gtest/gtest.h>

#include <array>

#include "shared/base/random.h"

namespace edgedraft {
namespace {

// A target that chooses 100, 101, 102, ... on every path.
VerifyOptions counting_target(std::uint32_t context_count) {
  return {.root_position = 10,
          .context_count = context_count,
          .choose = [](std::uint32_t, std::uint32_t position) { return 89 + position; },
          .is_end = [](std::uint32_t token) { return token == 103; }};
}

TEST(VerificationTest, EmptyTreeIsPlainStep) {
  const VerifiedPath result = verify(DraftTree(), counting_target(100));
  EXPECT_TRUE(result.path.empty());
  EXPECT_EQ(result.next, 100u);
  EXPECT_EQ(result.finish, Finish::none);
}

TEST(VerificationTest, FollowsMatchingBranchAndAddsTargetToken) {
  DraftTree tree;
  tree.add(99, 0);
  tree.add(100, 0);
  tree.add(101, 1);  // right token, wrong branch
  tree.add(101, 2);
  const VerifiedPath result = verify(tree, counting_target(100));
  EXPECT_EQ(result.path, (std::vector<std::uint32_t>{2, 4}));
  EXPECT_EQ(result.next, 102u);
}

TEST(VerificationTest, CorrectsAtFirstMismatch) {
  DraftTree tree;
  tree.add(100, 0);
  tree.add(7, 1);
  const VerifiedPath result = verify(tree, counting_target(100));
  EXPECT_EQ(result.path, (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(result.next, 101u);
}

TEST(VerificationTest, StopsAtEndToken) {
  DraftTree tree;
  for (std::uint32_t i = 0; i < 6; ++i) tree.add(100 + i, i);
  const VerifiedPath result = verify(tree, counting_target(100));
  EXPECT_EQ(result.path, (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_EQ(result.next, 103u);
  EXPECT_EQ(result.finish, Finish::end_token);
}

TEST(VerificationTest, StopsAtMaximumPathLength) {
  DraftTree tree;
  for (std::uint32_t i = 0; i < 3; ++i) tree.add(100 + i, i);
  VerifyOptions options = counting_target(100);
  options.path_max = 2;
  const VerifiedPath result = verify(tree, options);
  EXPECT_EQ(result.path, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(result.next, 102u) << "the target's own token";
  EXPECT_EQ(result.finish, Finish::none);
}

TEST(VerificationTest, StopsAtEndOfContext) {
  DraftTree tree;
  for (std::uint32_t i = 0; i < 3; ++i) tree.add(100 + i, i);
  const VerifiedPath result = verify(tree, counting_target(13));
  EXPECT_EQ(result.path, (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(result.next, 101u);  // at position 12, the last
  EXPECT_EQ(result.finish, Finish::context);
}

TEST(VerificationTest, DuplicateSiblingsGetNoSecondDraw) {
  std::uint32_t draws = 0;
  DraftTree tree;
  tree.add(5, 0);
  tree.add(5, 0);
  tree.add(6, 0);
  verify(tree, {.root_position = 0,
                .context_count = 100,
                .choose =
                    [&](std::uint32_t, std::uint32_t) {
                      ++draws;
                      return draws == 1 ? 5u : 9u;
                    },
                .is_end = [](std::uint32_t) { return false; }});
  EXPECT_EQ(draws, 2u);  // one at the root, one at the accepted child
}

// Distribution of the emitted tokens on a vocabulary of three, by exact enumeration of the draws: a
// tree must not change it. The draw at a position is uniform over 6 cells; p = (3/6, 2/6, 1/6).
TEST(VerificationTest, TreePreservesTargetDistribution) {
  constexpr std::array<std::uint32_t, 6> kCells{0, 0, 0, 1, 1, 2};
  Random random(5);
  for (int trial = 0; trial < 50; ++trial) {
    DraftTree tree;
    for (std::uint32_t i = 0; i < 12; ++i) {
      tree.add(static_cast<std::uint32_t>(random.below(3)),
               static_cast<std::uint32_t>(random.below(i + 1)));
    }
    for (std::uint32_t first = 0; first < 6; ++first) {
      for (std::uint32_t second = 0; second < 6; ++second) {
        const std::array<std::uint32_t, 2> cells{first, second};
        const VerifiedPath result =
            verify(tree, {.root_position = 0,
                          .context_count = 1000,
                          .choose =
                              [&](std::uint32_t, std::uint32_t position) {
                                return position <= 2 ? kCells[cells[position - 1]] : 99u;
                              },
                          .is_end = [](std::uint32_t) { return false; }});
        std::vector<std::uint32_t> emitted;
        for (const std::uint32_t row : result.path) emitted.push_back(tree.token(row));
        emitted.push_back(result.next);
        for (std::size_t i = 0; i < std::min<std::size_t>(2, emitted.size()); ++i) {
          EXPECT_EQ(emitted[i], kCells[cells[i]]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace edgedraft
