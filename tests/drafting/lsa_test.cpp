#include "shared/drafting/moa/moa_tap.h"

#include <gtest/gtest.h>

#include <numeric>

#include "shared/runtime/decoder.h"
#include "tests/runtime/op_test.h"
#include "tests/support/matrix_reading.h"
#include "tests/support/toy_models.h"

namespace edgedraft {
namespace {

using testing::read_matrix;
using testing::ToyDecoder;
using testing::ToyMoa;
using Tokens = std::vector<std::uint32_t>;

Tokens counting(std::uint32_t count) {
  Tokens tokens(count);
  for (std::uint32_t i = 0; i < count; ++i) tokens[i] = (7 * i + 3) % testing::kToyVocabulary;
  return tokens;
}

class LsaTest : public ::testing::TestWithParam<testing::BackendFactory> {
 protected:
  std::vector<float> mean(const KvCache& cache, std::uint32_t first, std::uint32_t count) {
    Tokens slots(count);
    std::iota(slots.begin(), slots.end(), first);
    OwnedMatrix y(*backend_, count, moa_.config.layer_self_attention.dim);
    lsa_.mean(cache, slots, y.all());
    return read_matrix(*backend_, y.all());
  }

  std::unique_ptr<Backend> backend_ = GetParam().open();
  ToyDecoder toy_{4};
  ToyMoa moa_{toy_, 40, 0};
  Decoder decoder_{*backend_, toy_.config, toy_.tensors, 128};
  LayerSelfAttention lsa_{*backend_, moa_.config, moa_.tensors};
};

TEST_P(LsaTest, IncrementalPositionsMatchWholePrefixBitForBit) {
  KvCache cache = decoder_.make_cache();
  decoder_.append(cache, counting(40));
  const auto whole = mean(cache, 0, 40);
  std::vector<float> pieces;
  for (const auto& [first, count] : {std::pair{0u, 1u}, {1u, 12u}, {13u, 3u}, {16u, 24u}}) {
    const auto piece = mean(cache, first, count);
    pieces.insert(pieces.end(), piece.begin(), piece.end());
  }
  EXPECT_EQ(whole, pieces);
}

TEST_P(LsaTest, PositionDependsOnItsOwnStatesOnly) {
  KvCache cache = decoder_.make_cache();
  decoder_.append(cache, counting(8));
  const auto before = mean(cache, 2, 1);
  decoder_.append(cache, counting(8));
  EXPECT_EQ(before, mean(cache, 2, 1));
}

// Guards the [K
//  V] per-head layout: swapping keys and values, or two layers, must change the result.
TEST_P(LsaTest, DistinguishesKeysValuesAndLayers) {
  KvCache cache = decoder_.make_cache();
  decoder_.append(cache, counting(4));
  const auto before = mean(cache, 3, 1);
  const auto exchange = [&](const CacheView& a, const CacheView& b) {
    const auto row_a = read_matrix(*backend_, a.run(3, 1).floats());
    const auto row_b = read_matrix(*backend_, b.run(3, 1).floats());
    backend_->write(a.run(3, 1).floats(), row_b);
    backend_->write(b.run(3, 1).floats(), row_a);
  };
  exchange(cache.keys()[1], cache.values()[1]);
  EXPECT_NE(before, mean(cache, 3, 1));
  exchange(cache.keys()[1], cache.values()[1]);
  ASSERT_EQ(before, mean(cache, 3, 1));
  exchange(cache.keys()[0], cache.keys()[2]);
  EXPECT_NE(before, mean(cache, 3, 1));
}

// A GGUF Llama file permutes the rows of Wq and Wk within each head and rotates pairs. LSA must
// read the same states.
TEST_P(LsaTest, RopeStylesGiveSameMean) {
  const HeadShape& heads = toy_.config.layer.heads;
  ToyDecoder permuted{4};
  ASSERT_EQ(permuted.config.rope.style, RopeStyle::halves);
  permuted.config.rope.style = RopeStyle::pairs;
  std::vector<Bytes> memory;
  const auto permute = [&](TensorView& w, std::uint32_t head_count) {
    const std::size_t row_size = w.bytes.size() / w.rows;
    Bytes& bytes = memory.emplace_back(w.bytes.size());
    for (std::uint32_t head = 0; head < head_count; ++head) {
      for (std::uint32_t i = 0; i < heads.head_dim; ++i) {
        const std::uint32_t from = head * heads.head_dim + i % 2 * heads.head_dim / 2 + i / 2;
        const std::uint32_t to = head * heads.head_dim + i;
        std::copy_n(&w.bytes[from * row_size], row_size, &bytes[to * row_size]);
      }
    }
    w.bytes = bytes;
  };
  for (LayerTensors& layer : permuted.tensors.layers) {
    permute(layer.attn_q, heads.query_heads);
    permute(layer.attn_k, heads.kv_heads);
  }
  ToyMoa moa(permuted, 40, 0);
  Decoder decoder(*backend_, permuted.config, permuted.tensors, 128);
  LayerSelfAttention lsa(*backend_, moa.config, moa.tensors);

  KvCache cache = decoder_.make_cache();
  KvCache permuted_cache = decoder.make_cache();
  decoder_.append(cache, counting(10));
  decoder.append(permuted_cache, counting(10));
  const Tokens slots{0, 5, 9};
  OwnedMatrix a(*backend_, 3, moa.config.layer_self_attention.dim);
  OwnedMatrix b(*backend_, 3, moa.config.layer_self_attention.dim);
  lsa_.mean(cache, slots, a.all());
  lsa.mean(permuted_cache, slots, b.all());
  const auto expected = read_matrix(*backend_, a.all());
  const auto measured = read_matrix(*backend_, b.all());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(measured[i], expected[i], 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Backends, LsaTest, ::testing::ValuesIn(testing::server_backends()),
                         testing::backend_name);

}  // namespace
}  // namespace edgedraft
