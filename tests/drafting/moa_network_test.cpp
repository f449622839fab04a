#include "shared/drafting/moa/moa_network.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/drafting/whole_levels.h"
#include "tests/runtime/op_test.h"
#include "tests/support/made_up_rows.h"
#include "tests/support/matrix_reading.h"
#include "tests/support/skip.h"
#include "tests/support/toy_models.h"

namespace edgedraft {
namespace {

using testing::BackendFactory;
using testing::expand_chain;
using testing::expect_close;
using testing::read_logits;
using testing::ToyDecoder;
using testing::ToyMoa;
using Tokens = std::vector<std::uint32_t>;

// Parameters: number of TLI layers and backend.
class MoaNetworkTest : public ::testing::TestWithParam<std::tuple<std::uint32_t, BackendFactory>> {
 protected:
  void SetUp() override {
    backend_ = std::get<1>(GetParam()).open();
    if (!backend_) EDGEDRAFT_SKIP_WITHOUT(std::get<1>(GetParam()).name, "not on this machine");
  }
  MoaNetwork fresh() { return {*backend_, moa_.config, moa_.tensors, 128}; }
  std::vector<float> rows(std::uint32_t first, std::uint32_t count) const {
    return testing::made_up_rows(layout_.cols(), first, count);
  }
  // Logits after a text, of which some may be committed.
  static std::vector<float> logits_behind(MoaNetwork& network, const Tokens& text) {
    network.commit(std::span(text).subspan(network.committed_count()));
    return read_logits(network);
  }

  std::unique_ptr<Backend> backend_;
  ToyDecoder toy_{4};
  ToyMoa moa_{toy_, 40, std::get<0>(GetParam())};
  MoaRowLayout layout_ = moa_row_layout(moa_.config);
};

TEST_P(MoaNetworkTest, DraftedPathMatchesCommittedPathBitForBit) {
  MoaNetwork drafted = fresh();
  drafted.extend_memory(0, rows(0, 3));
  drafted.commit(Tokens{5, 6, 7, 8});
  const auto along_tree = expand_chain(drafted, Tokens{9, 10, 11});

  MoaNetwork committed = fresh();
  committed.extend_memory(0, rows(0, 3));
  committed.commit(Tokens{5, 6, 7, 8, 9, 10, 11});
  EXPECT_EQ(along_tree, read_logits(committed));
}

TEST_P(MoaNetworkTest, TokenByTokenMatchesOneCommitBitForBit) {
  MoaNetwork stepwise = fresh();
  stepwise.extend_memory(0, rows(0, 2));
  for (const std::uint32_t token : {5u, 6u, 7u, 8u, 9u}) stepwise.commit(Tokens{token});

  MoaNetwork at_once = fresh();
  at_once.extend_memory(0, rows(0, 2));
  at_once.commit(Tokens{5, 6, 7, 8, 9});
  EXPECT_EQ(read_logits(stepwise), read_logits(at_once));
}

// Two of the committed tokens lie beyond the memory.
TEST_P(MoaNetworkTest, LevelMatchesSingleNodesBitForBit) {
  MoaNetwork together = fresh();
  MoaNetwork apart = fresh();
  for (MoaNetwork* network : {&together, &apart}) {
    network->extend_memory(0, rows(0, 3));
    network->commit(Tokens{5, 6, 7, 8, 9});
  }
  testing::expect_levels_have_the_bits_of_their_nodes(together, apart);
}

TEST_P(MoaNetworkTest, PiecewiseMemoryMatchesWholeMemoryBitForBit) {
  MoaNetwork pieces = fresh();
  pieces.extend_memory(0, rows(0, 4));
  pieces.commit(Tokens{1, 2, 3, 4, 5});
  expand_chain(pieces, Tokens{6, 9});
  pieces.extend_memory(4, rows(4, 3));
  pieces.commit(Tokens{6, 7, 8});

  MoaNetwork at_once = fresh();
  at_once.extend_memory(0, rows(0, 7));
  at_once.commit(Tokens{1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(read_logits(pieces), read_logits(at_once));
}

// The newest part of a long prompt's memory arrives first.
TEST_P(MoaNetworkTest, MemoryOrderDoesNotMatter) {
  MoaNetwork newest_first = fresh();
  newest_first.extend_memory(6, rows(6, 3));
  newest_first.extend_memory(0, rows(0, 6));
  MoaNetwork in_order = fresh();
  in_order.extend_memory(0, rows(0, 9));
  const Tokens tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  newest_first.commit(tokens);
  in_order.commit(tokens);
  expect_close(read_logits(newest_first), read_logits(in_order), 1e-4);
}

// A server may have a longer context.
TEST_P(MoaNetworkTest, IgnoresActivationsBeyondItsContext) {
  MoaNetwork network = fresh();
  network.extend_memory(0, rows(0, 126));
  network.extend_memory(126, rows(126, 4));
  network.extend_memory(130, rows(130, 1));
  EXPECT_EQ(network.memory_count(), network.position_count_max());
  MoaNetwork within = fresh();
  within.extend_memory(0, rows(0, 126));
  within.extend_memory(126, rows(126, 2));
  network.commit(Tokens{1, 2, 3});
  within.commit(Tokens{1, 2, 3});
  EXPECT_EQ(read_logits(network), read_logits(within));
}

TEST_P(MoaNetworkTest, LogitsDependOnMemory) {
  MoaNetwork a = fresh();
  MoaNetwork b = fresh();
  a.extend_memory(0, rows(0, 3));
  b.extend_memory(0, rows(1, 3));
  a.commit(Tokens{1, 2, 3, 4});
  b.commit(Tokens{1, 2, 3, 4});
  EXPECT_NE(read_logits(a), read_logits(b));
}

// After a span is written alone and then corrected, no state of it remains.
TEST_P(MoaNetworkTest, TruncatedTokensAndMemoryLeaveNoTrace) {
  MoaNetwork network = fresh();
  network.extend_memory(0, rows(0, 5));
  network.commit(Tokens{1, 2, 3, 4, 5, 6});
  for (const std::uint32_t token : {40u, 41u, 42u}) network.commit(Tokens{token});
  network.truncate(5);
  network.truncate_memory(3);
  EXPECT_EQ(network.memory_count(), 3u);
  network.extend_memory(3, rows(3, 4));
  const Tokens text{1, 2, 3, 4, 5, 6, 7, 8};

  MoaNetwork straight = fresh();
  straight.extend_memory(0, rows(0, 7));
  EXPECT_EQ(logits_behind(network, text), logits_behind(straight, text));
}

// Activations arrive after later verdicts, so some tokens stay the network's own.
TEST_P(MoaNetworkTest, LaggingMemoryMatchesWholeMemoryBitForBit) {
  MoaNetwork lagging = fresh();
  lagging.extend_memory(0, rows(0, 2));
  Tokens text{1, 2, 3, 4, 5};
  lagging.commit(text);
  for (std::uint32_t known = 2; known < 6; ++known) {
    lagging.extend_memory(known, rows(known, 1));
    text.push_back(10 + known);
    MoaNetwork at_once = fresh();
    at_once.extend_memory(0, rows(0, known + 1));
    EXPECT_EQ(logits_behind(lagging, text), logits_behind(at_once, text)) << known;
    EXPECT_EQ(expand_chain(lagging, Tokens{6, 9}), expand_chain(at_once, Tokens{6, 9})) << known;
  }
}

// Drafters for a Qwen2 may have biases.
TEST_P(MoaNetworkTest, LogitsDependOnEveryCrossAttentionBias) {
  const auto logits = [&] {
    MoaNetwork network = fresh();
    network.extend_memory(0, rows(0, 3));
    network.commit(Tokens{1, 2, 3, 4});
    return read_logits(network);
  };
  const HeadShape& heads = moa_.config.cross_attention.heads;
  LayerTensors& layer = moa_.tensors.cross_attention;
  std::vector<float> before = logits();
  for (TensorView* const bias : {&layer.attn_q_bias, &layer.attn_k_bias, &layer.attn_v_bias}) {
    const std::uint32_t cols = bias == &layer.attn_q_bias ? heads.query_cols() : heads.kv_cols();
    *bias = moa_.pool->normal(1, cols, 1.0);
    const std::vector<float> after = logits();
    EXPECT_NE(before, after);
    before = after;
  }
}

TEST_P(MoaNetworkTest, DraftsWithoutAnyMemory) {
  MoaNetwork network = fresh();
  network.commit(Tokens{1, 2});
  for (const float x : expand_chain(network, Tokens{3, 4})) ASSERT_TRUE(std::isfinite(x));
}

INSTANTIATE_TEST_SUITE_P(Tli, MoaNetworkTest,
                         ::testing::Combine(::testing::Values(0u, 1u, 3u),
                                            ::testing::ValuesIn(testing::drafting_backends())),
                         [](const auto& one) {
                           return std::to_string(std::get<0>(one.param)) + "_" +
                                  std::get<1>(one.param).name;
                         });

TEST(MoaRowLayoutTest, MatchesPaperFormulaAtItsCutPoint) {
  ToyDecoder toy(4);
  const std::uint32_t kv = toy.config.layer.heads.kv_cols();
  for (const std::uint32_t tli : {0u, 1u, 3u}) {
    const MoaRowLayout layout = moa_row_layout(ToyMoa(toy, 1, tli).config);
    EXPECT_EQ(layout.cut, CutPoint::lsa_mean);
    EXPECT_EQ(layout.cols(), 2 * kv * (tli + 1));
    std::uint32_t grouped = 0;
    for (const std::uint32_t g : layout.scale_groups) grouped += g;
    EXPECT_EQ(grouped, layout.cols());
  }
}

TEST(MoaRowLayoutTest, SendsProjectedKeysAndValuesIfSmaller) {
  ToyDecoder toy(4);
  const MoaRowLayout layout = moa_row_layout(ToyMoa(toy, 1, 1, 1).config);
  EXPECT_EQ(layout.cut, CutPoint::ca_kv);
  EXPECT_EQ(layout.memory_cols, 2 * 8u);
}

}  // namespace
}  // namespace edgedraft
