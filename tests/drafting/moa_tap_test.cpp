#include "shared/drafting/moa/moa_tap.h"

#include <gtest/gtest.h>

#include <cmath>

#include "shared/drafting/moa/moa_network.h"
#include "shared/runtime/decoder.h"
#include "tests/support/matrix_reading.h"
#include "tests/support/toy_models.h"

namespace edgedraft {
namespace {

using testing::read_logits;
using testing::ToyDecoder;
using testing::ToyMoa;
using Tokens = std::vector<std::uint32_t>;

class MoaTapTest : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  std::vector<float> rows(MoaTap& tap, const KvCache& cache, std::uint32_t first,
                          std::uint32_t count) {
    std::uint32_t cols = 0;
    for (const std::uint32_t g : tap.scale_groups()) cols += g;
    std::vector<float> values(std::size_t{count} * cols);
    tap.read(cache, first, count, values);
    return values;
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  ToyDecoder toy_{4};
  Decoder decoder_{*backend_, toy_.config, toy_.tensors, 256};
};

TEST_P(MoaTapTest, NewPositionsAloneGiveTheBitsOfTheWholePrefix) {
  ToyMoa moa(toy_, 3, GetParam());
  MoaTap tap(*backend_, moa.config, moa.tensors);
  KvCache cache = decoder_.make_cache();
  decoder_.append(cache, Tokens(150, 7));
  const auto whole = rows(tap, cache, 0, 150);
  auto pieces = rows(tap, cache, 0, 100);
  const auto rest = rows(tap, cache, 100, 50);
  pieces.insert(pieces.end(), rest.begin(), rest.end());
  EXPECT_EQ(whole, pieces);
}

// Where the projection runs is a matter of bytes alone.
TEST_P(MoaTapTest, BothCutPointsGiveTheDeviceTheSameLogits) {
  ToyMoa moa(toy_, 3, GetParam(), 1);
  ASSERT_EQ(moa_row_layout(moa.config).cut, CutPoint::ca_kv);
  MoaTap tap(*backend_, moa.config, moa.tensors);
  KvCache cache = decoder_.make_cache();
  const Tokens tokens{5, 6, 7, 8, 9};
  decoder_.append(cache, std::span(tokens).first(4));
  MoaNetwork network(*backend_, moa.config, moa.tensors, 64);
  network.extend_memory(0, rows(tap, cache, 0, 4));
  network.commit(tokens);

  // The same weights behind the paper's cut point: LSA's mean crosses, the device projects.
  const MoaRowLayout layout = moa_row_layout(moa.config);
  LayerSelfAttention lsa(*backend_, moa.config, moa.tensors);
  MemoryProjection projection(*backend_, moa.config, moa.tensors, 4);
  OwnedMatrix mean(*backend_, 4, moa.config.layer_self_attention.dim);
  const std::uint32_t ca_cols = moa.config.cross_attention.heads.kv_cols();
  OwnedMatrix keys(*backend_, 4, ca_cols);
  OwnedMatrix values(*backend_, 4, ca_cols);
  lsa.mean(cache, Tokens{0, 1, 2, 3}, mean.all());
  projection.project(mean.all(), keys.all(), values.all());
  auto sent = rows(tap, cache, 0, 4);
  const auto k = testing::read_matrix(*backend_, keys.all());
  const auto v = testing::read_matrix(*backend_, values.all());
  for (std::uint32_t r = 0; r < 4; ++r) {
    for (std::uint32_t i = 0; i < ca_cols; ++i) {
      EXPECT_EQ(sent[r * layout.cols() + i], k[r * ca_cols + i]);
      EXPECT_EQ(sent[r * layout.cols() + ca_cols + i], v[r * ca_cols + i]);
    }
  }
  for (const float x : read_logits(network)) ASSERT_TRUE(std::isfinite(x));
}

TEST(MoaTapTliTest, TheLastLayersKeysAndValuesAreTheTargetsOwn) {
  auto backend = make_cpu_backend({.threads = 1});
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

INSTANTIATE_TEST_SUITE_P(Tli, MoaTapTest, ::testing::Values(0u, 1u, 3u));

}  // namespace
}  // namespace edgedraft
