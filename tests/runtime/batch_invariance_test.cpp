#include <algorithm>

#include "shared/base/check.h"
#include "shared/runtime/layer.h"
#include "tests/runtime/op_test.h"
#include "tests/runtime/typed_cache.h"

// Lossless drafting relies on this: a row's bits do not depend on the other rows of its call. Each
// test runs rows together and one by one and compares bytes.
namespace edgedraft::testing {
namespace {

using BatchInvarianceTest = OpTest;
using ProductInvarianceTest = OpTest;
using FloatInvarianceTest = OpTest;

const std::vector<std::uint32_t> kWidths = {2,  3,  4,  5,  6,  7,  8,  9,   13,
                                            16, 31, 32, 33, 62, 64, 65, 127, 256};
constexpr std::uint32_t kWidthMax = 256;

std::span<const float> row_of(const Floats& values, std::size_t row, std::size_t cols) {
  return std::span(values).subspan(row * cols, cols);
}

struct Product {
  DType type;
  std::uint32_t inputs;
  std::uint32_t outputs;
};

TEST_P(ProductInvarianceTest, RowsMatchAtEveryWidth) {
  for (const Product& p : {Product{DType::f32, 33, 31},      Product{DType::f32, 1029, 40},
                           Product{DType::f16, 127, 65},     Product{DType::f16, 512, 33},
                           Product{DType::bf16, 129, 37},    Product{DType::bf16, 1040, 64},
                           Product{DType::q8_0, 32, 7},      Product{DType::q8_0, 384, 100},
                           Product{DType::q8_0, 544, 70},    Product{DType::q8_0, 1120, 35},
                           Product{DType::q4_0, 416, 70},    Product{DType::q4_0, 1120, 35},
                           Product{DType::q4_1, 416, 70},    Product{DType::q5_0, 416, 70},
                           Product{DType::q5_0, 1120, 35},   Product{DType::q5_1, 32, 7},
                           Product{DType::q5_1, 1120, 35},   Product{DType::q4_k, 256, 70},
                           Product{DType::q4_k, 1280, 35},   Product{DType::q5_k, 256, 33},
                           Product{DType::q5_k, 1280, 35},   Product{DType::q6_k, 256, 70},
                           Product{DType::q6_k, 1280, 35},   Product{DType::q2_k, 256, 70},
                           Product{DType::q2_k, 1280, 35},   Product{DType::q3_k, 1280, 35},
                           Product{DType::iq4_xs, 256, 70},  Product{DType::iq2_s, 1280, 35},
                           Product{DType::iq4_nl, 1120, 35}, Product{DType::mxfp4, 416, 70}}) {
    const TestWeight w(backend(), p.type, p.outputs, p.inputs,
                       random_floats(p.inputs, std::size_t{p.outputs} * p.inputs));
    const TestWeight bias(backend(), DType::f32, 1, p.outputs, random_floats(3, p.outputs));
    const OwnedMatrix x = matrix_of(backend(), kWidthMax, p.inputs,
                                    random_floats(p.outputs, std::size_t{kWidthMax} * p.inputs));
    const OwnedMatrix y(backend(), kWidthMax, p.outputs);
    for (std::uint32_t r = 0; r < kWidthMax; ++r) {
      backend().matmul({.x = x.all().row_range(r, 1),
                        .weight = w.weight,
                        .bias = bias.table,
                        .y = y.all().row_range(r, 1)});
    }
    const Floats alone = values_of(backend(), y.all());
    for (const std::uint32_t width : kWidths) {
      // Uses the last rows, so that a row's index in the call also changes with the width.
      const std::uint32_t first = kWidthMax - width;
      backend().matmul({.x = x.all().row_range(first, width),
                        .weight = w.weight,
                        .bias = bias.table,
                        .y = y.rows(width)});
      const Floats together = values_of(backend(), y.rows(width));
      EXPECT_TRUE(same_bytes(together, std::span(alone).subspan(first * std::size_t{p.outputs})))
          << traits(p.type).name << " " << p.inputs << " to " << p.outputs << ", " << width
          << " rows";
    }
  }
}

// Floats have a tile for every row count that fits the registers, and calls are split into tiles.
TEST_P(FloatInvarianceTest, RowsMatchAtEveryWidthUpTo130) {
  constexpr std::uint32_t kRows = 130;
  constexpr std::uint32_t kInputs = 197;
  constexpr std::uint32_t kOutputs = 45;
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    const TestWeight w(backend(), type, kOutputs, kInputs, random_floats(1, kOutputs * kInputs));
    const OwnedMatrix x = matrix_of(backend(), kRows, kInputs, random_floats(2, kRows * kInputs));
    const OwnedMatrix y(backend(), kRows, kOutputs);
    const auto multiply = [&](std::uint32_t first, std::uint32_t count) {
      backend().matmul({.x = x.all().row_range(first, count),
                        .weight = w.weight,
                        .bias = {},
                        .y = y.all().row_range(first, count)});
    };
    for (std::uint32_t row = 0; row < kRows; ++row) multiply(row, 1);
    const Floats alone = values_of(backend(), y.all());
    for (std::uint32_t width = 2; width <= kRows; ++width) {
      multiply(kRows - width, width);
      ASSERT_TRUE(same_bytes(values_of(backend(), y.all()), alone))
          << traits(type).name << ", " << width << " rows";
    }
  }
}

TEST_P(BatchInvarianceTest, RmsNormAndGateRowsMatchSingleRows) {
  struct Case {
    std::uint32_t groups;
    std::uint32_t cols;  // of a group
    Activation activation;
  };
  for (const Case& c :
       {Case{1, 1, Activation::silu}, Case{1, 33, Activation::silu}, Case{1, 127, Activation::silu},
        Case{1, 256, Activation::silu}, Case{1, 1000, Activation::silu},
        Case{4, 64, Activation::gelu}, Case{3, 34, Activation::clamped}}) {
    const std::uint32_t cols = c.groups * c.cols;
    const OwnedMatrix a = matrix_of(backend(), kWidthMax, cols, random_floats(1, kWidthMax * cols));
    const OwnedMatrix b = matrix_of(backend(), kWidthMax, cols, random_floats(2, kWidthMax * cols));
    const TestWeight weight(backend(), DType::f32, 1, c.cols, random_floats(3, c.cols));
    const OwnedMatrix normed(backend(), kWidthMax, cols);
    const OwnedMatrix gated(backend(), kWidthMax, cols);
    const auto run = [&](std::uint32_t first, std::uint32_t count) {
      backend().rms_norm({.x = a.all().row_range(first, count),
                          .weight = weight.table,
                          .y = normed.all().row_range(first, count),
                          .epsilon = 1e-6f});
      backend().gate({.gate = a.all().row_range(first, count),
                      .up = b.all().row_range(first, count),
                      .y = gated.all().row_range(first, count),
                      .activation = c.activation});
    };
    for (std::uint32_t r = 0; r < kWidthMax; ++r) run(r, 1);
    const Floats normed_alone = values_of(backend(), normed.all());
    const Floats gated_alone = values_of(backend(), gated.all());
    for (const std::uint32_t width : kWidths) {
      for (std::uint32_t first = 0; first + width <= kWidthMax; first += width) run(first, width);
      EXPECT_TRUE(same_bytes(values_of(backend(), normed.all()), normed_alone)) << width;
      EXPECT_TRUE(same_bytes(values_of(backend(), gated.all()), gated_alone)) << width;
    }
  }
}

TEST_P(BatchInvarianceTest, TopKRowsMatchSingleRows) {
  constexpr std::uint32_t kRows = 33;
  constexpr std::uint32_t kCols = 5003;
  constexpr std::uint32_t kK = 10;
  const OwnedMatrix logits =
      matrix_of(backend(), kRows, kCols, random_floats(1, std::size_t{kRows} * kCols));
  std::vector<std::uint32_t> tokens(kRows * kK);
  std::vector<std::uint32_t> tokens_alone(kRows * kK);
  Floats log_probs(kRows * kK);
  Floats log_probs_alone(kRows * kK);
  backend().top_k({.logits = logits.all(), .k = kK, .tokens = tokens, .log_probs = log_probs});
  for (std::uint32_t r = 0; r < kRows; ++r) {
    backend().top_k({.logits = logits.all().row_range(r, 1),
                     .k = kK,
                     .tokens = std::span(tokens_alone).subspan(r * kK, kK),
                     .log_probs = std::span(log_probs_alone).subspan(r * kK, kK)});
  }
  EXPECT_EQ(tokens, tokens_alone);
  EXPECT_TRUE(same_bytes(log_probs, log_probs_alone));
}

// Compares rows of a tree with their own path written to consecutive slots, as in plain decoding.
class PathTest : public OpTest {
 protected:
  static constexpr HeadShape kHeads{.query_heads = 6, .kv_heads = 2, .head_dim = 48};

  void expect_paths_match(std::uint32_t prefix, std::span<const AncestorMask> masks,
                          std::uint32_t window = 0, DType type = DType::f32) {
    const auto rows = static_cast<std::uint32_t>(masks.size());
    const std::uint32_t capacity = prefix + rows;
    const std::size_t cols = kHeads.kv_cols();
    const Floats keys = random_floats(prefix + 1, capacity * cols);
    const Floats values = random_floats(prefix + 2, capacity * cols);
    const OwnedMatrix q = matrix_of(backend(), rows, kHeads.query_cols(),
                                    random_floats(3, std::size_t{rows} * kHeads.query_cols()));
    const Floats together = attend(q.all(), keys, values, prefix, masks, window, type);

    for (std::uint32_t r = 0; r < rows; ++r) {
      Floats path_keys = keys;
      Floats path_values = values;
      std::uint32_t count = 0;
      for (std::uint32_t j = 0; j < rows; ++j) {
        if (!masks[r].test(j)) continue;
        const std::size_t from = (prefix + j) * cols;
        const std::size_t to = (prefix + count++) * cols;
        std::copy_n(keys.begin() + static_cast<std::ptrdiff_t>(from), cols,
                    path_keys.begin() + static_cast<std::ptrdiff_t>(to));
        std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(from), cols,
                    path_values.begin() + static_cast<std::ptrdiff_t>(to));
      }
      const Floats alone =
          attend(q.all().row_range(r, 1), path_keys, path_values, prefix + count, {}, window, type);
      ASSERT_TRUE(same_bytes(row_of(together, r, kHeads.query_cols()), alone))
          << "row " << r << " of " << rows << " after " << prefix << ", window " << window;
    }
  }

  Floats attend(const Matrix& q, const Floats& keys, const Floats& values, std::uint32_t prefix,
                std::span<const AncestorMask> masks, std::uint32_t window, DType type) {
    const auto capacity = static_cast<std::uint32_t>(keys.size() / kHeads.kv_cols());
    TypedCache stored_keys(backend(), type, capacity, kHeads.kv_cols());
    TypedCache stored_values(backend(), type, capacity, kHeads.kv_cols());
    stored_keys.store(0, keys);
    stored_values.store(0, values);
    std::vector<std::uint32_t> positions(q.rows, prefix - 1);
    for (std::size_t r = 0; r < masks.size(); ++r) {
      for (std::uint32_t j = 0; j < kMaskRowsMax; ++j) positions[r] += masks[r].test(j) ? 1 : 0;
    }
    const OwnedMatrix y(backend(), q.rows, kHeads.query_cols());
    backend().attention({.q = q,
                         .keys = stored_keys.view(),
                         .values = stored_values.view(),
                         .prefix = prefix,
                         .masks = masks,
                         .heads = kHeads,
                         .y = y.all(),
                         .scale = kHeads.score_scale(),
                         .window = window,
                         .positions = positions});
    return values_of(backend(), y.all());
  }
};

TEST_P(PathTest, ChainEqualsPlainDecoding) {
  for (const std::uint32_t prefix : {0u, 1u, 50u, 64u, 200u}) {
    for (const std::uint32_t rows : {1u, 7u, 64u, 70u}) {
      expect_paths_match(prefix, causal_masks(rows));
    }
  }
}

TEST_P(PathTest, TreeEqualsPlainDecoding) {
  std::uint64_t seed = 1;
  for (const std::uint32_t prefix : {0u, 5u, 63u, 64u, 130u}) {
    for (const std::uint32_t rows : {2u, 9u, 33u, 62u, 256u}) {
      expect_paths_match(prefix, random_tree(seed++, rows));
    }
  }
}

TEST_P(PathTest, WindowedTreeEqualsPlainDecoding) {
  for (const std::uint32_t prefix : {0u, 63u, 200u}) {
    for (const std::uint32_t window : {4u, 40u, 130u}) {
      expect_paths_match(prefix, random_tree(window, 62), window);
    }
  }
}

TEST_P(PathTest, RoundedKeysAndValuesEqualPlainDecoding) {
  for (const DType type : kCacheTypes) {
    if (type == DType::f32 || !backend().takes_cache_type(type)) continue;
    SCOPED_TRACE(std::string(traits(type).name));
    expect_paths_match(130, causal_masks(70), 0, type);
    expect_paths_match(5, random_tree(1, 62), 0, type);
    expect_paths_match(200, random_tree(2, 33), 40, type);
  }
}

// A whole layer over a tree of rows, compared with the same rows one by one, path by path.
class LayerInvarianceTest : public OpTest {};

TEST_P(LayerInvarianceTest, WholeLayerOverTree) {
  constexpr std::uint32_t kRows = 40;
  constexpr std::uint32_t kPrefix = 10;
  const LayerShape shape{.dim = 96,
                         .heads = {.query_heads = 6, .kv_heads = 2, .head_dim = 16},
                         .ffn_dim = 160,
                         .rms_epsilon = 1e-5f};
  const std::uint32_t kv_cols = shape.heads.kv_cols();
  std::vector<TestWeight> owners;
  owners.reserve(9);
  const auto weight = [&](DType type, std::uint32_t rows, std::uint32_t cols) {
    owners.emplace_back(backend(), type, rows, cols,
                        random_floats(owners.size() + 1, std::size_t{rows} * cols));
    return owners.back().weight;
  };
  const auto norm = [&](std::uint32_t cols) {
    owners.emplace_back(backend(), DType::f32, 1, cols, random_floats(owners.size() + 1, cols));
    return owners.back().table;
  };
  const OwnedMatrix cos_sin = make_rope_table(backend(), {}, shape.heads.head_dim, 64);
  const Layer layer{
      .plan = {.shape = shape},
      .weights = {.attn_norm = norm(shape.dim),
                  .attn_q = weight(DType::f16, shape.heads.query_cols(), shape.dim),
                  .attn_k = weight(DType::q8_0, kv_cols, shape.dim),
                  .attn_v = weight(DType::bf16, kv_cols, shape.dim),
                  .attn_output = weight(DType::f16, shape.dim, shape.heads.query_cols()),
                  .ffn_norm = norm(shape.dim),
                  .ffn_gate = weight(DType::q8_0, shape.ffn_dim, shape.dim),
                  .ffn_up = weight(DType::f16, shape.ffn_dim, shape.dim),
                  .ffn_down = weight(DType::q8_0, shape.dim, shape.ffn_dim)},
      .rope_style = RopeStyle::halves,
      .cos_sin = cos_sin.all()};
  LayerScratch scratch(backend(), shape, kRows);
  const Floats input = random_floats(77, kRows * shape.dim);
  const Floats prefix_keys = random_floats(78, kPrefix * kv_cols);
  const auto masks = random_tree(5, kRows);
  std::vector<std::uint32_t> positions;
  for (const AncestorMask& mask : masks) {
    std::uint32_t depth = kPrefix - 1;
    for (std::uint32_t j = 0; j < kRows; ++j) depth += mask.test(j) ? 1 : 0;
    positions.push_back(depth);
  }
  const auto new_cache = [&] {
    OwnedMatrix cache(backend(), kPrefix + kRows, kv_cols);
    backend().write(cache.rows(kPrefix), prefix_keys);
    return cache;
  };
  const auto run = [&](const Matrix& x, const RowBatch& batch, const OwnedMatrix& keys,
                       const OwnedMatrix& values) {
    self_attention(backend(), layer, scratch, x, batch, keys.all(), values.all());
    feed_forward(backend(), layer, scratch, x);
  };

  const OwnedMatrix x = matrix_of(backend(), kRows, shape.dim, input);
  const OwnedMatrix keys = new_cache();
  const OwnedMatrix values = new_cache();
  run(x.all(), {.positions = positions, .prefix = kPrefix, .first_slot = kPrefix, .masks = masks},
      keys, values);
  const Floats together = values_of(backend(), x.all());

  const auto single = causal_masks(1);
  for (std::uint32_t r = 0; r < kRows; ++r) {
    const OwnedMatrix path_keys = new_cache();
    const OwnedMatrix path_values = new_cache();
    Floats last;
    for (std::uint32_t j = 0; j <= r; ++j) {
      if (!masks[r].test(j)) continue;
      const OwnedMatrix row = matrix_of(backend(), 1, shape.dim, row_of(input, j, shape.dim));
      const std::uint32_t slot = positions[j];
      run(row.all(),
          {.positions = std::span(&slot, 1), .prefix = slot, .first_slot = slot, .masks = single},
          path_keys, path_values);
      last = values_of(backend(), row.all());
    }
    ASSERT_TRUE(same_bytes(row_of(together, r, shape.dim), last)) << "row " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(OneThread, ProductInvarianceTest, ::testing::ValuesIn(all_backends()),
                         backend_name);
INSTANTIATE_TEST_SUITE_P(TwoThreads, ProductInvarianceTest, ::testing::ValuesIn(cpu_backends(2)),
                         backend_name);
EDGEDRAFT_FOR_VULKAN_FEATURES(ProductInvarianceTest);
INSTANTIATE_TEST_SUITE_P(OneThread, FloatInvarianceTest, ::testing::ValuesIn(cpu_backends(1)),
                         backend_name);
INSTANTIATE_TEST_SUITE_P(TwoThreads, FloatInvarianceTest, ::testing::ValuesIn(cpu_backends(2)),
                         backend_name);
INSTANTIATE_TEST_SUITE_P(OneThread, BatchInvarianceTest, ::testing::ValuesIn(all_backends()),
                         backend_name);
INSTANTIATE_TEST_SUITE_P(TwoThreads, BatchInvarianceTest, ::testing::ValuesIn(cpu_backends(2)),
                         backend_name);
EDGEDRAFT_FOR_ALL_BACKENDS(PathTest);
EDGEDRAFT_FOR_ALL_BACKENDS(LayerInvarianceTest);
EDGEDRAFT_FOR_VULKAN_FEATURES(LayerInvarianceTest);

}  // namespace
}  // namespace edgedraft::testing
