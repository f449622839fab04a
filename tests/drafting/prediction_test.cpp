// An answer that repeats a text its client predicted comes in whole passages, edited or not.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "shared/base/random.h"
#include "shared/drafting/predicted_drafter.h"
#include "tests/support/random_tokens.h"

namespace edgedraft {
namespace {

using testing::random_tokens;
using Tokens = std::vector<std::uint32_t>;

constexpr TreeShape kShape{.breadth = 4, .depth = 16, .nodes = 62};

// A drafter that always proposes its last token again.
class Repeater final : public Drafter {
 public:
  std::uint32_t token_count() const override { return static_cast<std::uint32_t>(tokens_.size()); }
  void append(std::span<const std::uint32_t> tokens) override {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }
  void truncate(std::uint32_t count) override { tokens_.resize(count); }
  bool grow(TreeGrowth& growth, const GrowthBudget& /*budget*/) override {
    growth.clear();
    growth.add(tokens_.back(), 0, -1.0f);
    growth.finish();
    return true;
  }
  std::span<const float> next_logits() override { return {}; }

 private:
  Tokens tokens_;
};

struct Verified {
  std::uint32_t passes = 0;
  PredictionCounts rows;
};

// A target that writes `answer` and verifies a tree in each pass.
Verified verified(const Tokens& answer, const Tokens& prediction) {
  PredictedDrafter drafter(std::make_unique<Repeater>());
  drafter.append(Tokens{0});
  drafter.predict(prediction);
  Verified verified;
  for (std::size_t at = 0; at < answer.size(); ++verified.passes) {
    const DraftTree tree = drafter.draft(kShape);
    const std::size_t first = at;
    std::uint32_t row = 0;
    while (at < answer.size() && (row = tree.child(row, answer[at])) != 0) ++at;
    if (at < answer.size()) ++at;  // the target's own token
    drafter.append(std::span(answer).subspan(first, at - first));
  }
  verified.rows = drafter.prediction_counts();
  return verified;
}

std::uint32_t passes_for(const Tokens& answer, const Tokens& prediction) {
  return verified(answer, prediction).passes;
}

Tokens with_edit(Tokens text, std::size_t at, std::size_t dropped, const Tokens& inserted) {
  const auto place = text.begin() + static_cast<std::ptrdiff_t>(at);
  text.erase(place, place + static_cast<std::ptrdiff_t>(dropped));
  text.insert(text.begin() + static_cast<std::ptrdiff_t>(at), inserted.begin(), inserted.end());
  return text;
}

TEST(PredictionTest, EditedWordCostsFewPasses) {
  Random random(1);
  for (int round = 0; round < 50; ++round) {
    // Few different tokens, so that short runs repeat.
    const Tokens text = random_tokens(random, 600, 40);
    const std::size_t at = random.below(590);
    EXPECT_LE(passes_for(text, text), 600 / 17 + 1);
    for (const std::size_t dropped : {0u, 1u, 3u}) {
      for (const std::size_t inserted : {0u, 1u, 3u}) {
        const Tokens answer = with_edit(text, at, dropped, random_tokens(random, inserted, 40));
        EXPECT_LE(passes_for(answer, text), 60u) << round << ": " << dropped << ", " << inserted;
      }
    }
  }
}

// A template's first tokens or a thought may precede the text.
TEST(PredictionTest, IsFoundWithinLongerAnswer) {
  Random random(2);
  const Tokens text = random_tokens(random, 300, 200);
  for (const std::uint32_t before : {20u, 400u}) {
    Tokens answer = random_tokens(random, before, 200);
    answer.insert(answer.end(), text.begin() + 100, text.end());
    EXPECT_LE(passes_for(answer, text), before + 200 / 17 + 5);
  }
}

// Few different tokens, so that the prediction has places for most pairs of the answer.
TEST(PredictionTest, WrongTextSoonCostsNoRows) {
  Random random(3);
  for (const std::uint32_t vocabulary : {40u, 4000u}) {
    const Tokens junk = random_tokens(random, 2000, vocabulary);
    const Verified cost = verified(random_tokens(random, 600, vocabulary), junk);
    EXPECT_LE(cost.rows.rejected(), 600u / 4) << vocabulary;
    EXPECT_GE(cost.rows.rejected(), 10u) << vocabulary;
  }
}

// The counts are those of the trees' own rows.
TEST(PredictionTest, CountsAcceptedAndRejectedRows) {
  const Tokens text = {1, 2, 3, 4, 5, 6, 7, 8};
  const Verified whole = verified(text, text);
  EXPECT_EQ(whole.passes, 1u);
  EXPECT_EQ(whole.rows.accepted, 8u);
  EXPECT_EQ(whole.rows.rejected(), 0u);
  const Verified half = verified({1, 2, 3, 4, 99}, text);
  EXPECT_EQ(half.rows.accepted, 4u);
  EXPECT_EQ(half.rows.rejected(), 4u);
  EXPECT_EQ(verified(text, {}).rows.proposed, 0u);
}

TEST(PredictionTest, ScoresFallAlongPathAndRiseWithTheRun) {
  const Tokens text = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const DraftTree early = prediction_tree(text, std::span(text).subspan(3, 2), kShape);
  const DraftTree late = prediction_tree(text, std::span(text).first(5), kShape);
  ASSERT_EQ(early.node_count(), 5u);
  ASSERT_EQ(late.node_count(), 5u);
  EXPECT_LT(early.score(1), late.score(1));
  for (std::uint32_t row = 2; row <= 5; ++row) EXPECT_LT(late.score(row), late.score(row - 1));
  EXPECT_TRUE(prediction_tree(text, text, kShape).empty());
  EXPECT_TRUE(prediction_tree(text, Tokens(5, 77), kShape).empty());
}

TEST(PredictionTest, JoinsDrafterForOneAnswer) {
  PredictedDrafter drafter(std::make_unique<Repeater>());
  const Tokens prompt = {5, 6};
  drafter.append(prompt);
  EXPECT_EQ(drafter.draft(kShape).node_count(), 1u);
  drafter.predict({7, 8, 9});
  DraftTree tree = drafter.draft(kShape);
  EXPECT_NE(tree.child(0, 6), 0u);
  EXPECT_NE(tree.child(tree.child(0, 7), 8), 0u);
  const Tokens answer = {7, 8, 1};
  drafter.append(answer);
  drafter.truncate(4);  // the target rejected the last one
  tree = drafter.draft(kShape);
  EXPECT_NE(tree.child(0, 8), 0u);
  EXPECT_NE(tree.child(0, 9), 0u);
  drafter.truncate(1);
  EXPECT_EQ(drafter.draft(kShape).node_count(), 1u) << "it belonged to the answer that is gone";
}

}  // namespace
}  // namespace edgedraft
