#include "shared/drafting/moa/moa_tap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "shared/drafting/moa/moa_network.h"
#include "shared/runtime/decoder.h"
#include "tests/runtime/op_test.h"
#include "tests/support/matrix_reading.h"
#include "tests/support/toy_models.h"

namespace edgedraft {
namespace {

using testing::BackendFactory;
using testing::read_logits;
using testing::ToyDecoder;
using testing::ToyMoa;
using Tokens = std::vector<std::uint32_t>;

// Parameters: number of TLI layers and backend.
class MoaTapTest : public ::testing::TestWithParam<std::tuple<std::uint32_t, BackendFactory>> {
 protected:
  static std::uint32_t tli() { return std::get<0>(GetParam()); }
  std::vector<float> rows(MoaTap& tap, const KvCache& cache, std::uint32_t first,
                          std::uint32_t count) {
    std::uint32_t cols = 0;
    for (const std::uint32_t g : tap.scale_groups()) cols += g;
    std::vector<float> values(std::size_t{count} * cols);
    tap.read(cache, first, count, values);
    return values;
  }

  std::unique_ptr<Backend> backend_ = std::get<1>(GetParam()).open();
  ToyDecoder toy_{4};
  Decoder decoder_{*backend_, toy_.config, toy_.tensors, 256};
};

TEST_P(MoaTapTest, IncrementalPositionsMatchWholePrefixBitForBit) {
  ToyMoa moa(toy_, 3, tli());
  MoaTap tap(*backend_, moa.config, moa.tensors);
  KvCache cache = decoder_.make_cache();
  decoder_.append(cache, Tokens(150, 7));
  const auto whole = rows(tap, cache, 0, 150);
  auto pieces = rows(tap, cache, 0, 100);
  const auto rest = rows(tap, cache, 100, 50);
  pieces.insert(pieces.end(), rest.begin(), rest.end());
  EXPECT_EQ(whole, pieces);
}

// Duplicates the only KV head of a drafter's cross-attention. The results are equal, but its keys
// and values are no longer smaller than the target's, so that the layers' mean crosses the link.
ToyMoa with_its_head_twice(const ToyMoa& moa) {
  ToyMoa twice = moa;
  const std::uint32_t head_dim = moa.config.cross_attention.heads.head_dim;
  Tokens weight_rows;
  for (std::uint32_t i = 0; i < 2 * head_dim; ++i) weight_rows.push_back(i % head_dim);
  twice.config.cross_attention.heads.kv_heads = 2;
  LayerTensors& ca = twice.tensors.cross_attention;
  ca.attn_k = twice.pool->rows_of(ca.attn_k, weight_rows);
  ca.attn_v = twice.pool->rows_of(ca.attn_v, weight_rows);
  return twice;
}

class MoaCutPointTest : public MoaTapTest {
 protected:
  // A server's tap and the network that it feeds.
  struct Pair {
    Pair(Backend& backend, const ToyMoa& moa)
        : layout(moa_row_layout(moa.config)),
          tap(backend, moa.config, moa.tensors),
          network(backend, moa.config, moa.tensors, 64) {}

    MoaRowLayout layout;
    MoaTap tap;
    MoaNetwork network;
  };

  // Feeds rows of the target's cache from `first` on to each network through its own tap.
  void extend_memory(std::uint32_t first, std::uint32_t count) {
    for (Pair* pair : {&projected_, &averaged_}) {
      pair->network.extend_memory(first, rows(pair->tap, cache_, first, count));
    }
  }
  void commit(const Tokens& tokens) {
    for (Pair* pair : {&projected_, &averaged_}) pair->network.commit(tokens);
  }
  void expand(const std::vector<GrowthNode>& nodes) {
    for (Pair* pair : {&projected_, &averaged_}) pair->network.expand(nodes);
  }
  // Two sibling tokens, and two below the second.
  void expect_same_drafts() {
    GrowthNode below{.token = 12, .depth = 2, .ancestors = {}};
    below.ancestors.set(1);
    GrowthNode beside = below;
    beside.token = 13;
    expand(
        {{.token = 20, .depth = 1, .ancestors = {}}, {.token = 21, .depth = 1, .ancestors = {}}});
    expect_same_logits("the first level of a draft");
    expand({below, beside});
    expect_same_logits("the second level of a draft");
  }
  void expect_same_logits(const char* when) {
    SCOPED_TRACE(when);
    testing::expect_close(read_logits(projected_.network), read_logits(averaged_.network),
                          kTolerance);
  }

  // Four query heads share one KV head, or two each share two: the same numbers are summed, in
  // tiles of another size.
  static constexpr double kTolerance = 1e-4;

  ToyMoa moa_{toy_, 3, tli(), 1};
  ToyMoa twice_ = with_its_head_twice(moa_);
  Pair projected_{*backend_, moa_};
  Pair averaged_{*backend_, twice_};
  KvCache cache_ = decoder_.make_cache();
};

// The cut point changes only the bytes sent. The device's logits are equal after a prompt, on a
// draft, and after partial, full and no acceptance. They also are after text that the device wrote
// alone is taken back.
TEST_P(MoaCutPointTest, CutPointsGiveSameLogits) {
  ASSERT_EQ(projected_.layout.cut, CutPoint::ca_kv);
  ASSERT_EQ(averaged_.layout.cut, CutPoint::lsa_mean);
  decoder_.append(cache_, Tokens{5, 6, 7, 8});
  extend_memory(0, 4);
  commit({5, 6, 7, 8, 9});
  expect_same_logits("a prompt");
  expect_same_drafts();

  decoder_.append(cache_, Tokens{9, 21, 12});
  extend_memory(4, 3);
  commit({21, 12, 30});
  expect_same_logits("two drafted tokens accepted");
  expect_same_drafts();

  decoder_.append(cache_, Tokens{30});
  extend_memory(7, 1);
  commit({40});
  expect_same_logits("none accepted");

  for (const std::uint32_t token : {41u, 42u}) commit({token});
  expect_same_logits("two tokens of the device's own");
  expect_same_drafts();
  for (Pair* pair : {&projected_, &averaged_}) {
    pair->network.truncate(7);
    pair->network.truncate_memory(7);
  }
  cache_.set_length(7);
  decoder_.append(cache_, Tokens{31});
  extend_memory(7, 1);
  commit({31, 43});
  expect_same_logits("a correction");
  expect_same_drafts();
}

// Shows that the comparison above would notice keys without rotation, and swapped keys and values.
TEST_P(MoaCutPointTest, LogitsDistinguishPositionsKeysAndValues) {
  const Tokens tokens{5, 6, 7, 8, 9};
  decoder_.append(cache_, std::span(tokens).first(4));
  const auto sent = rows(projected_.tap, cache_, 0, 4);
  const auto logits_of = [&](std::uint32_t first, const std::vector<float>& memory) {
    MoaNetwork network(*backend_, moa_.config, moa_.tensors, 64);
    network.extend_memory(first, memory);
    network.commit(tokens);
    return read_logits(network);
  };
  const auto farthest = [](const std::vector<float>& a, const std::vector<float>& b) {
    double most = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i)
      most = std::max(most, std::fabs(double{a[i]} - b[i]));
    return most;
  };
  auto exchanged = sent;
  for (std::size_t row = 0; row < 4; ++row) {
    const auto memory =
        std::span(exchanged).subspan(row * projected_.layout.cols(), projected_.layout.memory_cols);
    std::ranges::rotate(memory, memory.begin() + static_cast<std::ptrdiff_t>(memory.size() / 2));
  }
  const auto right = logits_of(0, sent);
  EXPECT_GT(farthest(logits_of(0, exchanged), right), 10 * kTolerance);
  EXPECT_GT(farthest(logits_of(1, sent), right), 10 * kTolerance);
}

class MoaTapTliTest : public ::testing::TestWithParam<BackendFactory> {};

TEST_P(MoaTapTliTest, SendsTargetKeysAndValuesOfLastLayers) {
  const auto backend = GetParam().open();
  ToyDecoder toy(4);
  Decoder decoder(*backend, toy.config, toy.tensors, 64);
  ToyMoa moa(toy, 3, 2);
  MoaTap tap(*backend, moa.config, moa.tensors);
  KvCache cache = decoder.make_cache();
  decoder.append(cache, Tokens{5, 6, 7});
  const MoaRowLayout layout = moa_row_layout(moa.config);
  std::vector<float> rows(3 * layout.cols());
  tap.read(cache, 0, 3, rows);
  for (std::uint32_t i = 0; i < 2; ++i) {
    const auto keys = testing::read_matrix(*backend, cache.keys()[1 + i].run(0, 3).floats());
    const auto values = testing::read_matrix(*backend, cache.values()[1 + i].run(0, 3).floats());
    const std::uint32_t cols = layout.tli_layer_cols / 2;
    for (std::uint32_t p = 0; p < 3; ++p) {
      for (std::uint32_t c = 0; c < cols; ++c) {
        const float* row = &rows[p * layout.cols() + layout.tli_first_col(i)];
        ASSERT_EQ(row[c], keys[p * cols + c]);
        ASSERT_EQ(row[cols + c], values[p * cols + c]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, MoaTapTliTest, ::testing::ValuesIn(testing::server_backends()),
                         testing::backend_name);

std::string case_name(const ::testing::TestParamInfo<MoaTapTest::ParamType>& info) {
  return std::to_string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
}
INSTANTIATE_TEST_SUITE_P(Tli, MoaTapTest,
                         ::testing::Combine(::testing::Values(0u, 1u, 3u),
                                            ::testing::ValuesIn(testing::server_backends())),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Tli, MoaCutPointTest,
                         ::testing::Combine(::testing::Values(0u, 1u, 3u),
                                            ::testing::ValuesIn(testing::server_backends())),
                         case_name);

}  // namespace
}  // namespace edgedraft
