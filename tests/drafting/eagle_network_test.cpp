#include "shared/drafting/feature_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "shared/drafting/eagle/eagle_kind.h"
#include "shared/protocol/activation_codec.h"
#include "shared/runtime/decoder.h"
#include "tests/drafting/network_test.h"
#include "tests/support/made_up_rows.h"
#include "tests/support/matrix_reading.h"
#include "tests/support/toy_feature_drafters.h"

namespace edgedraft {
namespace {

using testing::expand_chain;
using testing::expect_close;
using testing::read_logits;
using testing::ToyDecoder;
using testing::ToyEagle;
using Tokens = std::vector<std::uint32_t>;

constexpr std::uint32_t kPositions = 300;

class EagleNetworkTest : public testing::NetworkTest<FeatureNetwork> {
 protected:
  FeatureNetwork fresh() override { return {backend(), toy_eagle_.model(), kPositions}; }

  ToyDecoder toy_{4};
  ToyEagle toy_eagle_{toy_, 40};
};

TEST_P(EagleNetworkTest, DraftedPathMatchesCommittedPathBitForBit) {
  expect_drafts_have_the_bits_of_commits(3);
}

TEST_P(EagleNetworkTest, TokenByTokenMatchesOneCommitBitForBit) {
  FeatureNetwork stepwise = fresh();
  extend(stepwise, 0, 2);
  for (const std::uint32_t token : {5u, 6u, 7u, 8u, 9u}) stepwise.commit(Tokens{token});

  FeatureNetwork at_once = fresh();
  extend(at_once, 0, 2);
  at_once.commit(Tokens{5, 6, 7, 8, 9});
  EXPECT_EQ(read_logits(stepwise), read_logits(at_once));
}

TEST_P(EagleNetworkTest, LevelMatchesSingleNodesBitForBit) {
  expect_levels_have_the_bits_of_nodes(3);
}

TEST_P(EagleNetworkTest, NodeContinuesFeatureOfItsParent) {
  FeatureNetwork network = fresh();
  extend(network, 0, 1);
  network.commit(Tokens{5, 6});
  const std::vector<GrowthNode> level{{.token = 11, .depth = 1, .ancestors = {}},
                                      {.token = 12, .depth = 1, .ancestors = {}}};
  network.expand(level);
  GrowthNode below_second{.token = 13, .depth = 2, .ancestors = {}};
  below_second.ancestors.set(1);
  network.expand(std::span(&below_second, 1));

  FeatureNetwork alone = fresh();
  extend(alone, 0, 1);
  alone.commit(Tokens{5, 6, 12, 13});
  EXPECT_EQ(read_logits(network), read_logits(alone));
}

TEST_P(EagleNetworkTest, TargetFeaturesReplacePredictedOnesAndTheirResults) {
  const Tokens tokens = some_tokens(10);
  FeatureNetwork late = fresh();
  extend(late, 0, 4);
  late.commit(tokens);  // the features of 4 to 8 are its own
  expand_chain(late, Tokens{6, 9});
  const auto before = read_logits(late);
  extend(late, 4, 5);
  late.truncate(9);
  late.commit(std::span(tokens).last(1));

  FeatureNetwork in_time = fresh();
  extend(in_time, 0, 9);
  in_time.commit(tokens);
  EXPECT_EQ(read_logits(late), read_logits(in_time));
  EXPECT_NE(before, read_logits(in_time));
}

// Features may arrive before the tokens that they are paired with.
TEST_P(EagleNetworkTest, FeaturesMayArriveBeforeTheirTokens) {
  const Tokens tokens = some_tokens(10);
  FeatureNetwork ahead = fresh();
  extend(ahead, 0, 9);
  ahead.commit(some_tokens(4));
  ahead.commit(std::span(tokens).subspan(4));
  FeatureNetwork in_time = fresh();
  extend(in_time, 0, 3);
  in_time.commit(some_tokens(4));
  extend(in_time, 3, 6);
  in_time.commit(std::span(tokens).subspan(4));
  EXPECT_EQ(read_logits(ahead), read_logits(in_time));
}

// The newest part of a long prompt's features arrives first; older positions have no input until
// theirs arrive.
TEST_P(EagleNetworkTest, FeatureOrderDoesNotMatter) {
  const Tokens tokens = some_tokens(10);
  FeatureNetwork newest_first = fresh();
  extend(newest_first, 6, 3);
  newest_first.commit(tokens);
  const auto with_a_hole = read_logits(newest_first);
  extend(newest_first, 0, 6);
  newest_first.truncate(9);
  newest_first.commit(std::span(tokens).last(1));
  FeatureNetwork in_order = fresh();
  extend(in_order, 0, 9);
  in_order.commit(tokens);
  expect_close(read_logits(newest_first), read_logits(in_order), 1e-4);
  EXPECT_NE(with_a_hole, read_logits(in_order));
}

// Given the root's own feature, the logits are those of the target's head.
TEST_P(EagleNetworkTest, UsesTargetFeatureOfLastToken) {
  FeatureNetwork network = fresh();
  extend(network, 0, 4);
  network.commit(some_tokens(4));
  FeatureNetwork other = fresh();
  other.extend_memory(0, testing::made_up_rows(32, 50, 3));  // rows before it do not matter then
  extend(other, 3, 1);
  other.commit(some_tokens(4));
  EXPECT_EQ(read_logits(network), read_logits(other));
}

// A server may have a longer context.
TEST_P(EagleNetworkTest, IgnoresFeaturesBeyondItsContext) {
  FeatureNetwork network = fresh();
  extend(network, 0, kPositions - 2);
  extend(network, kPositions - 2, 4);
  extend(network, kPositions + 2, 1);
  FeatureNetwork within = fresh();
  extend(within, 0, kPositions);
  network.commit(some_tokens(kPositions));
  within.commit(some_tokens(kPositions));
  EXPECT_EQ(read_logits(network), read_logits(within));
}

// After a span is written alone and then corrected, no state of it remains.
TEST_P(EagleNetworkTest, TruncatedTokensAndFeaturesLeaveNoTrace) {
  FeatureNetwork network = fresh();
  extend(network, 0, 5);
  network.commit(Tokens{1, 2, 3, 4, 5, 6});
  for (const std::uint32_t token : {40u, 41u, 42u}) network.commit(Tokens{token});
  network.truncate(5);
  network.truncate_memory(3);
  extend(network, 3, 4);
  network.commit(Tokens{6, 7, 8});

  FeatureNetwork straight = fresh();
  extend(straight, 0, 7);
  straight.commit(Tokens{1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(read_logits(network), read_logits(straight));
}

TEST_P(EagleNetworkTest, LogitsDependOnTokensAndFeaturesNotHistory) {
  expect_history_does_not_matter(60, 1);
}

TEST_P(EagleNetworkTest, DraftsWithoutAnyFeature) {
  FeatureNetwork one_token = fresh();
  one_token.commit(Tokens{1});
  for (const float x : expand_chain(one_token, Tokens{3, 4})) ASSERT_TRUE(std::isfinite(x));
  // Holds for any text length, and for text that arrives in pieces.
  FeatureNetwork pieces = fresh();
  const Tokens tokens = some_tokens(290);
  for (std::size_t i = 0; i < tokens.size(); i += 58) {
    pieces.commit(std::span(tokens).subspan(i, 58));
  }
  FeatureNetwork at_once = fresh();
  at_once.commit(tokens);
  EXPECT_EQ(read_logits(pieces), read_logits(at_once));
}

INSTANTIATE_TEST_SUITE_P(Backends, EagleNetworkTest,
                         ::testing::ValuesIn(testing::drafting_backends()), testing::backend_name);

// Its tap: E values per position, one byte each plus a scale; a cycle's tokens take three bytes
// each.
TEST(EagleTapTest, PositionIsTargetFeatureInOneBytePerElement) {
  const auto backend = make_cpu_backend({.threads = 1});
  const ToyDecoder toy(4);
  const ToyEagle toy_eagle(toy, 3);
  const auto model = make_eagle_model({.config = toy_eagle.config, .tensors = toy_eagle.tensors});
  const auto tap = model->make_tap(*backend);
  const std::uint32_t dim = toy.config.layer.dim;
  const auto groups = tap->scale_groups();
  const ActivationLayout layout({groups.begin(), groups.end()});
  constexpr std::uint32_t kScaleBytes = 2;
  EXPECT_EQ(layout.cols(), dim);
  EXPECT_EQ(layout.row_bytes(), dim + kScaleBytes);
  EXPECT_EQ(model->load(*backend, 64)->make_drafter()->activation_cols(), dim);

  const auto states = tap->states();
  Decoder decoder(*backend, toy.config, toy.tensors, 64, {states.begin(), states.end()});
  KvCache cache = decoder.make_cache();
  const Tokens tokens{5, 6, 7};
  const std::uint32_t last = decoder.append(cache, tokens) - 1;
  std::vector<float> rows(3 * dim);
  tap->read(cache, 0, 3, rows);
  // The target's head computes its logits from the feature.
  OwnedMatrix feature(*backend, 1, dim);
  backend->write(feature.all(), std::span(rows).last(dim));
  WeightStore store(*backend);
  OwnedMatrix logits(*backend, 1, testing::kToyVocabulary);
  backend->matmul({.x = feature.all(),
                   .weight = store.add_matrix(*toy.tensors.output),
                   .bias = {},
                   .y = logits.all()});
  EXPECT_EQ(testing::read_matrix(*backend, logits.all()),
            testing::read_matrix(*backend, decoder.logits(last, 1)));
}

}  // namespace
}  // namespace edgedraft
