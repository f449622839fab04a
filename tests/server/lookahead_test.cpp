#include "server/proposers/lookahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace edgedraft::server {
namespace {

using Tokens = std::vector<std::uint32_t>;

// A target that writes a fixed text, independent of its context: token p at position p.
constexpr std::uint32_t kText = 1000;

class LookaheadWindowTest : public ::testing::TestWithParam<LookaheadWindow::Shape> {
 protected:
  static Tokens path_to(const DraftTree& tree, std::uint32_t row) {
    Tokens path;
    for (; row != 0; row = tree.parent(row)) path.push_back(row);
    std::ranges::reverse(path);
    return path;
  }
  // The last level's tokens, identified by position: the target's answers depend on the position
  // only.
  static Tokens answers(const LookaheadWindow& window, std::uint32_t root_position) {
    const DraftTree rows = window.rows();
    const auto depths = rows.depths();
    Tokens likeliest;
    for (std::uint32_t row = rows.row_count() - window.asked_count(); row < rows.row_count();
         ++row) {
      likeliest.push_back(kText + root_position + depths[row] + 1);
    }
    return likeliest;
  }
};

TEST_P(LookaheadWindowTest, ColumnsHaveRightPositionsAndContexts) {
  const auto [n, width] = GetParam();
  std::uint32_t made_up = 0;
  LookaheadWindow window(
      GetParam(), [&] { return made_up++; }, [](std::uint32_t) { return false; });
  std::uint32_t root = 10;
  for (std::uint32_t pass = 0; pass < 3 * n; ++pass, ++root) {
    const DraftTree rows = window.rows();
    ASSERT_LE(rows.node_count(), LookaheadWindow::rows_max(GetParam()));
    const auto depths = rows.depths();
    EXPECT_LE(*std::ranges::max_element(depths), LookaheadWindow::depth_max(GetParam()));
    if (pass + 2 >= n) {
      // Level 0 has one column less, and column i of level r is at position i + r after the root.
      ASSERT_EQ(rows.node_count(), (n - 1) * width - 1);
      EXPECT_EQ(window.asked_count(), width);
      for (std::uint32_t row = 1; row < rows.row_count(); ++row) {
        const std::uint32_t level = row < width ? 0 : 1 + (row - width) / width;
        const std::uint32_t i = row < width ? row - 1 : (row - width) % width;
        EXPECT_EQ(depths[row], level == 0 ? i + 1 : i + level);
        Tokens seen;
        for (std::uint32_t before = 1; before <= (level == 0 ? i + 1 : i); ++before) {
          seen.push_back(before);
        }
        for (std::uint32_t r = 1; r <= level; ++r) seen.push_back(width * r + i);
        EXPECT_EQ(path_to(rows, row), seen);
      }
    }
    for (const auto& written : window.advance(kText + root, answers(window, root))) {
      EXPECT_EQ(written.sequence.size(), n - 1);
    }
  }
}

// If the target writes its text regardless of context, then after n - 1 passes the window holds
// only that text. Each token is at its position, also in the n-grams.
TEST_P(LookaheadWindowTest, ConvergesToTextAheadOfRoot) {
  const auto [n, width] = GetParam();
  LookaheadWindow window(
      GetParam(), [] { return 3u; }, [](std::uint32_t) { return false; });
  std::uint32_t root = 10;
  for (std::uint32_t pass = 0; pass < 3 * n; ++pass, ++root) {
    const DraftTree rows = window.rows();
    const auto depths = rows.depths();
    for (std::uint32_t row = 1; row < rows.row_count(); ++row) {
      const bool made_up = rows.token(row) == 3;
      EXPECT_TRUE(made_up || rows.token(row) == kText + root + depths[row]);
      EXPECT_TRUE(!made_up || pass < n - 1);
    }
    for (const auto& [key, sequence] : window.advance(kText + root, answers(window, root))) {
      if (pass < 2 * n) continue;
      for (std::size_t i = 0; i < sequence.size(); ++i) EXPECT_EQ(sequence[i], key + 1 + i);
    }
  }
}

TEST_P(LookaheadWindowTest, NeverContinuesAfterEndToken) {
  LookaheadWindow window(
      GetParam(), [] { return 3u; }, [](std::uint32_t token) { return token == 2; });
  for (int pass = 0; pass < 10; ++pass) {
    window.advance(5, Tokens(window.asked_count(), 2));
    const DraftTree rows = window.rows();
    EXPECT_EQ(std::ranges::count(rows.nodes(), 2u, &DraftNode::token), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LookaheadWindowTest,
                         ::testing::Values(LookaheadWindow::Shape{5, 15},
                                           LookaheadWindow::Shape{3, 2},
                                           LookaheadWindow::Shape{4, 7},
                                           LookaheadWindow::Shape{7, 5}));

TEST(LookaheadTest, GuessesNewestNgramsOfLastToken) {
  Lookahead lookahead({.window = {.n = 4, .width = 6}, .guesses = 3},
                      [](std::uint32_t t) { return t == 2; });
  LookaheadWindow same(
      {.n = 4, .width = 6}, [] { return 7u; }, [](std::uint32_t t) { return t == 2; });
  std::vector<LookaheadWindow::Written> all;
  Random random(5);
  for (int pass = 0; pass < 200; ++pass) {
    // A text of one repeated token fills both windows equally.
    const auto root = static_cast<std::uint32_t>(pass == 0 ? 7 : random.below(9));
    const Tokens text{root};
    EXPECT_TRUE(lookahead.ask(text, lookahead.rows_max() - 1, 100).empty()) << "too few rows";
    EXPECT_TRUE(lookahead.ask(text, 255, 6).empty()) << "the context ends";
    const Probes probes = lookahead.ask(text, lookahead.rows_max(), 100);
    ASSERT_EQ(probes.rows, same.rows());
    Tokens likeliest(probes.asked_count);
    for (auto& token : likeliest) token = static_cast<std::uint32_t>(3 + random.below(6));
    lookahead.learn(root, likeliest);
    for (auto& written : same.advance(root, likeliest)) all.push_back(std::move(written));
    for (std::uint32_t key = 0; key < 10; ++key) {
      std::vector<Tokens> newest;
      for (auto it = all.rbegin(); it != all.rend() && newest.size() < 3; ++it) {
        const bool seen = std::ranges::find(newest, it->sequence) != newest.end();
        if (it->key == key && !seen) newest.push_back(it->sequence);
      }
      GuessList guesses(3, 3);
      lookahead.guess(Tokens{1, key}, guesses);
      std::vector<Tokens> guessed;
      for (const Guess& guess : guesses.guesses()) guessed.push_back(guess.tokens);
      ASSERT_EQ(guessed, newest);
    }
  }
}

}  // namespace
}  // namespace edgedraft::server
