#include "shared/drafting/medusa/medusa_drafter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>

#include "shared/drafting/medusa/medusa_kind.h"
#include "shared/protocol/activation_codec.h"
#include "tests/runtime/op_test.h"
#include "tests/support/matrix_reading.h"
#include "tests/support/toy_feature_drafters.h"

namespace edgedraft {
namespace {

using testing::HeadOutputs;
using testing::read_matrix;
using testing::ToyDecoder;
using testing::ToyMedusa;
using Tokens = std::vector<std::uint32_t>;

const std::vector<MedusaChoice> kTree = {{0, 0}, {0, 1}, {0, 4}, {1, 0}, {1, 2}, {2, 0}, {4, 0}};

class MedusaTest : public testing::OpTest {
 protected:
  static constexpr std::uint32_t kPositions = 64;
  static constexpr std::uint32_t kHeads = 4;
  static constexpr TreeShape kShape{.breadth = 3, .depth = 6, .nodes = 30};

  std::shared_ptr<MedusaHeads> heads_of(const ToyMedusa& toy) {
    return std::make_shared<MedusaHeads>(backend(), toy.config, toy.tensors);
  }
  // Made-up features of a position, equal for every drafter.
  static std::vector<float> row(std::uint32_t position) {
    return testing::random_floats(1000 + position, 32);
  }
  static void add_row(Drafter& drafter, std::uint32_t position) {
    drafter.add_activations(position, row(position));
  }
  MedusaDrafter fresh(const std::vector<MedusaChoice>& tree = {},
                      HeadOutputs outputs = HeadOutputs::shared) {
    ToyMedusa toy(toy_, 40, outputs, kHeads);
    toy.config.tree = tree;
    toys_.push_back(toy);
    return {heads_of(toys_.back()), kPositions};
  }
  // A head's likeliest tokens for a feature, best first.
  Tokens guesses(std::uint32_t position, std::uint32_t head, std::uint32_t count) {
    const ToyMedusa toy(toy_, 40, HeadOutputs::shared, kHeads);
    Tokens tokens(count);
    std::vector<float> log_probs(count);
    const auto heads = heads_of(toy);
    backend().top_k({.logits = heads->logits(row(position), head, 1),
                     .k = count,
                     .tokens = tokens,
                     .log_probs = log_probs});
    return tokens;
  }

  ToyDecoder toy_{4};
  std::list<ToyMedusa> toys_;
};

// W1 and b are 0 at first, so every head equals the target's own.
TEST_P(MedusaTest, UntrainedHeadsMatchTargetHead) {
  for (const HeadOutputs outputs : {HeadOutputs::shared, HeadOutputs::own}) {
    ToyMedusa toy(toy_, 40, outputs, kHeads);
    for (MedusaTensors::Head& head : toy.tensors.heads) {
      head.weight = toy.pool->normal(toy.config.dim, toy.config.dim, 0.0);
      head.bias = toy.pool->normal(1, toy.config.dim, 0.0);
      if (outputs == HeadOutputs::own) head.output = *toy_.tensors.output;
    }
    const auto heads = heads_of(toy);
    const auto feature = row(3);
    const auto said = read_matrix(backend(), heads->logits(feature, 0, kHeads));
    WeightStore store(backend());
    const OwnedMatrix x = testing::matrix_of(backend(), 1, toy.config.dim, feature);
    OwnedMatrix logits(backend(), 1, testing::kToyVocabulary);
    backend().matmul({.x = x.all(),
                      .weight = store.add_matrix(*toy_.tensors.output),
                      .bias = {},
                      .y = logits.all()});
    const auto target = read_matrix(backend(), logits.all());
    for (std::uint32_t k = 0; k < kHeads; ++k) {
      EXPECT_TRUE(
          std::ranges::equal(std::span(said).subspan(k * target.size(), target.size()), target));
    }
  }
}

TEST_P(MedusaTest, SingleHeadsMatchAllHeadsBitForBit) {
  for (const HeadOutputs outputs : {HeadOutputs::shared, HeadOutputs::own}) {
    const ToyMedusa toy(toy_, 40, outputs, kHeads);
    const auto heads = heads_of(toy);
    const auto all = read_matrix(backend(), heads->logits(row(3), 0, kHeads));
    for (std::uint32_t k = 0; k < kHeads; ++k) {
      const auto one = read_matrix(backend(), heads->logits(row(3), k, 1));
      EXPECT_TRUE(std::ranges::equal(one, std::span(all).subspan(k * one.size(), one.size())));
    }
  }
}

// Level d has head d's guesses, the same below every node.
TEST_P(MedusaTest, EachLevelHoldsGuessesOfItsHead) {
  MedusaDrafter drafter = fresh();
  drafter.append(Tokens{5, 6, 7, 8});
  add_row(drafter, 2);
  const DraftTree tree = drafter.draft(kShape);
  const auto depths = tree.depths();
  EXPECT_EQ(*std::ranges::max_element(depths), kHeads);
  EXPECT_EQ(tree.node_count(), kShape.nodes);
  for (std::uint32_t node = 1; node <= tree.node_count(); ++node) {
    const Tokens likeliest = guesses(2, depths[node] - 1, kShape.breadth);
    EXPECT_NE(std::ranges::find(likeliest, tree.token(node)), likeliest.end()) << node;
  }
}

TEST_P(MedusaTest, DraftsBundleTreeCutToShape) {
  MedusaDrafter drafter = fresh(kTree);
  drafter.append(Tokens{5, 6, 7, 8});
  add_row(drafter, 2);
  const DraftTree tree = drafter.draft({.breadth = 8, .depth = 6, .nodes = 62});
  DraftTree expected;
  for (const MedusaChoice& choice : kTree) {
    const std::uint32_t head = expected.depths()[choice.parent];
    expected.add(guesses(2, head, 8)[choice.rank], choice.parent);
  }
  EXPECT_EQ(tree, expected);
  // Only ranks below the breadth, levels up to the depth, and the best nodes.
  EXPECT_EQ(drafter.draft({.breadth = 3, .depth = 6, .nodes = 62}).node_count(), 6u);
  EXPECT_EQ(drafter.draft({.breadth = 8, .depth = 1, .nodes = 62}).node_count(), 3u);
  EXPECT_EQ(drafter.draft({.breadth = 8, .depth = 6, .nodes = 5}).node_count(), 5u);
  const DraftTree chain = drafter.draft(chain_shape(3));
  EXPECT_EQ(chain.depths(), (Tokens{0, 1, 2, 3}));
}

// Skips heads whose guesses are for tokens that are already known.
TEST_P(MedusaTest, LaggingFeatureUsesHeadsBeyondKnownTokens) {
  for (const auto& fixed : {std::vector<MedusaChoice>(), kTree}) {
    MedusaDrafter drafter = fresh(fixed);
    drafter.append(Tokens{5, 6, 7, 8});
    add_row(drafter, 2);
    for (std::uint32_t lag = 1; lag < kHeads; ++lag) {
      drafter.append(Tokens{20 + lag});
      const DraftTree tree = drafter.draft(kShape);
      const auto depths = tree.depths();
      EXPECT_EQ(*std::ranges::max_element(depths), kHeads - lag);
      for (std::uint32_t node = 1; node <= tree.node_count(); ++node) {
        const Tokens likeliest = guesses(2, lag + depths[node] - 1, kShape.breadth);
        EXPECT_NE(std::ranges::find(likeliest, tree.token(node)), likeliest.end()) << lag;
      }
    }
    drafter.append(Tokens{30});
    EXPECT_TRUE(drafter.draft(kShape).empty());
    add_row(drafter, drafter.token_count() - 2);
    EXPECT_FALSE(drafter.draft(kShape).empty());
  }
}

TEST_P(MedusaTest, DraftsNothingWithoutFeature) {
  MedusaDrafter drafter = fresh();
  drafter.append(Tokens{5, 6, 7});
  EXPECT_TRUE(drafter.draft(kShape).empty());
  add_row(drafter, 1);
  EXPECT_FALSE(drafter.draft(kShape).empty());
  EXPECT_TRUE(drafter.next_logits().empty());
  drafter.drop_activations(1);
  EXPECT_TRUE(drafter.draft(kShape).empty());
}

TEST_P(MedusaTest, TreeDependsOnNewestFeatureNotHistory) {
  MedusaDrafter drafter = fresh();
  drafter.append(Tokens{5, 6, 7, 8, 9, 10, 11, 12});
  for (const std::uint32_t p : {6u, 2u, 3u, 4u, 5u, 0u, 1u}) add_row(drafter, p);
  const DraftTree with_all = drafter.draft(kShape);
  drafter.truncate(6);
  add_row(drafter, 4);
  const DraftTree behind = drafter.draft(kShape);

  MedusaDrafter newest = fresh();
  newest.append(Tokens{5, 6, 7, 8, 9, 10, 11, 12});
  add_row(newest, 6);
  EXPECT_EQ(with_all, newest.draft(kShape));
  MedusaDrafter shorter = fresh();
  shorter.append(Tokens{5, 6, 7, 8, 9, 10});
  add_row(shorter, 4);
  EXPECT_EQ(behind, shorter.draft(kShape));
}

// Growth in steps, as in drafting ahead of verdicts.
TEST_P(MedusaTest, StepSizeDoesNotChangeTree) {
  MedusaDrafter drafter = fresh();
  drafter.append(Tokens{5, 6, 7, 8});
  add_row(drafter, 2);
  TreeGrowth growth(kShape);
  EXPECT_FALSE(drafter.grow(growth, {.rows = 0}));
  while (!drafter.grow(growth, {.rows = 2})) {
  }
  TreeGrowth at_once(kShape);
  EXPECT_TRUE(drafter.grow(at_once, {}));
  EXPECT_EQ(growth.tree(), at_once.tree());

  // After a verdict the root advances and its feature has arrived.
  const Tokens accepted{growth.tree().token(1), 33};
  growth.reroot(accepted);
  drafter.append(accepted);
  add_row(drafter, 3);
  add_row(drafter, 4);
  while (!drafter.grow(growth, {.rows = 2})) {
  }
  MedusaDrafter other = fresh();
  other.append(Tokens{5, 6, 7, 8, accepted[0], accepted[1]});
  add_row(other, 4);
  TreeGrowth fresh_growth(kShape);
  EXPECT_TRUE(other.grow(fresh_growth, {}));
  EXPECT_EQ(growth.tree(), fresh_growth.tree());
}

TEST_P(MedusaTest, DraftsNothingBeyondItsContext) {
  MedusaDrafter drafter = fresh();
  drafter.append(Tokens(kPositions - 2, 5));
  add_row(drafter, kPositions - 4);
  const auto depths = drafter.draft(kShape).depths();
  EXPECT_EQ(*std::ranges::max_element(depths), 2u);
  drafter.append(Tokens{5, 6, 7});
  add_row(drafter, kPositions - 1);
  EXPECT_TRUE(drafter.draft(kShape).empty());
}

INSTANTIATE_TEST_SUITE_P(Backends, MedusaTest, ::testing::ValuesIn(testing::drafting_backends()),
                         testing::backend_name);

}  // namespace
}  // namespace edgedraft
