#include <algorithm>
#include <numeric>

#include "tests/runtime/op_test.h"

namespace edgedraft::testing {
namespace {

// Reference: softmax attention of one query head in float64. The sink may be -infinity: none.
std::vector<double> exact_attention(std::span<const float> q, const Floats& keys,
                                    const Floats& values, std::span<const std::uint32_t> slots,
                                    std::size_t stride, std::size_t column, double scale,
                                    double sink = -INFINITY) {
  std::vector<double> weights;
  for (const std::uint32_t slot : slots) {
    double dot = 0.0;
    for (std::size_t d = 0; d < q.size(); ++d) {
      dot += double{q[d]} * double{keys[slot * stride + column + d]};
    }
    weights.push_back(dot * scale);
  }
  const double largest = std::max(*std::max_element(weights.begin(), weights.end()), sink);
  double total = std::exp(sink - largest);
  for (double& weight : weights) total += weight = std::exp(weight - largest);
  std::vector<double> y(q.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    for (std::size_t d = 0; d < q.size(); ++d) {
      y[d] += weights[i] / total * double{values[slots[i] * stride + column + d]};
    }
  }
  return y;
}

std::vector<std::uint32_t> visible_slots(std::uint32_t prefix, const AncestorMask& mask) {
  std::vector<std::uint32_t> slots(prefix);
  std::iota(slots.begin(), slots.end(), 0u);
  for (std::uint32_t j = 0; j < kMaskRowsMax; ++j) {
    if (mask.test(j)) slots.push_back(prefix + j);
  }
  return slots;
}

// Scores of random values in [-1, 1) are small, so weights are nearly even. 2e-6 is a dozen
// rounding errors of a value near 1, which lane-wise sums do not exceed.
constexpr double kTolerance = 2e-6;

struct Case {
  HeadShape heads;
  std::uint32_t prefix;
  std::vector<AncestorMask> masks;  // one per row
  std::uint32_t rows;
  std::uint32_t window = 0;
  bool has_sinks = false;
  float scale = 0.0f;  // 0: the usual
};

// Position of each row: the last of the slots that it sees.
std::vector<std::uint32_t> positions_of(const Case& c) {
  std::vector<std::uint32_t> positions;
  for (std::uint32_t r = 0; r < c.rows; ++r) {
    const AncestorMask mask = c.masks.empty() ? AncestorMask{} : c.masks[r];
    positions.push_back(static_cast<std::uint32_t>(visible_slots(c.prefix, mask).size() - 1));
  }
  return positions;
}

class AttentionTest : public OpTest {
 protected:
  void expect_right(const Case& c) {
    const std::size_t kv_cols = c.heads.kv_cols();
    const std::size_t query_cols = c.heads.query_cols();
    const std::uint32_t capacity = c.prefix + c.rows;
    const Floats q = random_floats(c.prefix + 1, c.rows * query_cols);
    const Floats keys = random_floats(c.prefix + 2, capacity * kv_cols);
    const Floats values = random_floats(c.prefix + 3, capacity * kv_cols);
    const OwnedMatrix q_matrix = matrix_of(backend(), c.rows, c.heads.query_cols(), q);
    const OwnedMatrix keys_matrix = matrix_of(backend(), capacity, c.heads.kv_cols(), keys);
    const OwnedMatrix values_matrix = matrix_of(backend(), capacity, c.heads.kv_cols(), values);
    const TestWeight sinks(backend(), DType::f32, 1, c.heads.query_heads,
                           random_floats(9, c.heads.query_heads));
    const float scale = c.scale != 0.0f ? c.scale : c.heads.score_scale();
    const std::vector<std::uint32_t> positions = positions_of(c);
    const OwnedMatrix y_matrix(backend(), c.rows, c.heads.query_cols());
    backend().attention({.q = q_matrix.all(),
                         .keys = keys_matrix.all(),
                         .values = values_matrix.all(),
                         .prefix = c.prefix,
                         .masks = c.masks,
                         .heads = c.heads,
                         .y = y_matrix.all(),
                         .scale = scale,
                         .window = c.window,
                         .positions = positions,
                         .sinks = c.has_sinks ? sinks.table : Weight{}});
    const Floats y = values_of(backend(), y_matrix.all());

    const std::size_t dim = c.heads.head_dim;
    for (std::size_t r = 0; r < c.rows; ++r) {
      const AncestorMask mask = c.masks.empty() ? AncestorMask{} : c.masks[r];
      auto slots = visible_slots(c.prefix, mask);
      if (c.window != 0 && slots.size() > c.window) {
        slots.erase(slots.begin(), slots.end() - static_cast<std::ptrdiff_t>(c.window));
      }
      for (std::size_t h = 0; h < c.heads.query_heads; ++h) {
        const std::size_t kv_head = h / (c.heads.query_heads / c.heads.kv_heads);
        const std::size_t at = r * query_cols + h * dim;
        const double sink = c.has_sinks ? double{sinks.decoded[h]} : -INFINITY;
        const auto exact = exact_attention(std::span(q).subspan(at, dim), keys, values, slots,
                                           kv_cols, kv_head * dim, double{scale}, sink);
        for (std::size_t d = 0; d < dim; ++d) {
          expect_near(y[at + d], exact[d], kTolerance,
                      "row " + std::to_string(r) + " head " + std::to_string(h) + " prefix " +
                          std::to_string(c.prefix) + " window " + std::to_string(c.window));
        }
      }
    }
  }
};

constexpr HeadShape kOneHead{.query_heads = 1, .kv_heads = 1, .head_dim = 2};

// Scores ln 3 and 0 make weights 3/4 and 1/4.
TEST_P(AttentionTest, WeighsValuesBySoftmax) {
  const float score = std::log(3.0f) * std::sqrt(2.0f);
  const OwnedMatrix q = matrix_of(backend(), 1, 2, Floats{1, 0});
  const OwnedMatrix keys = matrix_of(backend(), 2, 2, Floats{score, 5, 0, -7});
  const OwnedMatrix values = matrix_of(backend(), 2, 2, Floats{4, 8, 0, 16});
  const Floats weighed = attend(backend(), kOneHead, q.all(), keys.all(), values.all(), 2, {});
  EXPECT_NEAR(weighed[0], 3.0f, 1e-5f);
  EXPECT_NEAR(weighed[1], 10.0f, 1e-5f);
}

// Two children of one root: each sees the prefix, the root and itself, not its sibling.
TEST_P(AttentionTest, HidesSiblings) {
  const OwnedMatrix q(backend(), 3, 2);  // zeros: even weights
  const OwnedMatrix keys(backend(), 4, 2);
  const OwnedMatrix values = matrix_of(backend(), 4, 2, Floats{3, 0, 6, 0, 9, 0, 30, 0});
  std::vector<AncestorMask> masks(3);
  masks[0].set(0);
  masks[1].set(0);
  masks[1].set(1);
  masks[2].set(0);
  masks[2].set(2);
  const Floats means = attend(backend(), kOneHead, q.all(), keys.all(), values.all(), 1, masks);
  EXPECT_NEAR(means[0], 4.5f, 1e-5f);   // (3 + 6) / 2
  EXPECT_NEAR(means[2], 6.0f, 1e-5f);   // (3 + 6 + 9) / 3
  EXPECT_NEAR(means[4], 13.0f, 1e-5f);  // (3 + 6 + 30) / 3
}

TEST_P(AttentionTest, AgreesWithFloat64OverAPrefix) {
  for (const std::uint32_t prefix : {1u, 31u, 63u, 64u, 65u, 127u, 128u, 300u}) {
    expect_right({.heads = {.query_heads = 4, .kv_heads = 2, .head_dim = 32},
                  .prefix = prefix,
                  .masks = {},
                  .rows = 3});
  }
}

TEST_P(AttentionTest, AgreesWithFloat64OverTrees) {
  for (const std::uint32_t rows : {1u, 31u, 33u, 62u, 256u}) {
    for (const std::uint32_t prefix : {0u, 60u, 130u}) {
      expect_right({.heads = {.query_heads = 4, .kv_heads = 2, .head_dim = 32},
                    .prefix = prefix,
                    .masks = random_tree(rows, rows),
                    .rows = rows});
    }
  }
}

TEST_P(AttentionTest, AgreesWithFloat64ForEveryHeadShape) {
  for (const HeadShape heads : {HeadShape{1, 1, 2}, HeadShape{3, 1, 34}, HeadShape{8, 1, 64},
                                HeadShape{12, 2, 128}, HeadShape{7, 7, 80}, HeadShape{32, 4, 64},
                                HeadShape{2, 1, 256}, HeadShape{2, 1, 320}, HeadShape{4, 2, 512}}) {
    if (heads.head_dim > backend().head_dim_max()) continue;
    expect_right({.heads = heads, .prefix = 70, .masks = random_tree(9, 9), .rows = 9});
  }
}

TEST_P(AttentionTest, MultipliesScoresByScale) {
  for (const float scale : {1.0f, 0.03f}) {
    expect_right({.heads = {.query_heads = 4, .kv_heads = 2, .head_dim = 32},
                  .prefix = 70,
                  .masks = random_tree(9, 9),
                  .rows = 9,
                  .scale = scale});
  }
}

TEST_P(AttentionTest, SinksTakeTheirShareOfWeight) {
  for (const std::uint32_t prefix : {0u, 70u, 700u}) {
    for (const std::uint32_t window : {0u, 20u}) {
      expect_right({.heads = {.query_heads = 6, .kv_heads = 2, .head_dim = 32},
                    .prefix = prefix,
                    .masks = random_tree(9, 9),
                    .rows = 9,
                    .window = window,
                    .has_sinks = true});
    }
  }
}

TEST_P(AttentionTest, WindowShowsOnlyTheNewestPositions) {
  const HeadShape heads{.query_heads = 4, .kv_heads = 2, .head_dim = 32};
  for (const std::uint32_t window : {1u, 3u, 31u, 32u, 33u, 64u, 100u, 128u, 500u}) {
    for (const std::uint32_t prefix : {1u, 64u, 130u, 700u}) {
      expect_right({.heads = heads, .prefix = prefix, .masks = {}, .rows = 3, .window = window});
    }
    for (const std::uint32_t prefix : {0u, 60u, 300u}) {
      expect_right({.heads = heads,
                    .prefix = prefix,
                    .masks = random_tree(window, 70),
                    .rows = 70,
                    .window = window});
    }
  }
}

// Not even NaN in the slots before it changes a bit, nor does the number of rows in the call.
TEST_P(AttentionTest, WindowedRowsMatchSingleRowsBesideHiddenNan) {
  const HeadShape heads{.query_heads = 4, .kv_heads = 2, .head_dim = 64};
  constexpr std::uint32_t kRows = 40;
  const std::size_t query_cols = heads.query_cols();
  const std::size_t kv_cols = heads.kv_cols();
  const TestWeight sinks(backend(), DType::f32, 1, 4, Floats{0.5f, -1.0f, 2.0f, 0.0f});
  for (const std::uint32_t prefix : {40u, 333u, 1500u}) {
    const std::uint32_t slots = prefix + kRows;
    const OwnedMatrix q =
        matrix_of(backend(), kRows, heads.query_cols(), random_floats(1, kRows * query_cols));
    const Floats numbers = random_floats(2, slots * kv_cols);
    const OwnedMatrix keys = matrix_of(backend(), slots, heads.kv_cols(), numbers);
    std::vector<std::uint32_t> positions(kRows);
    std::iota(positions.begin(), positions.end(), prefix);
    const auto masks = causal_masks(kRows);
    for (const std::uint32_t window : {7u, 33u, 300u}) {
      const OwnedMatrix y(backend(), kRows, heads.query_cols());
      backend().attention({.q = q.all(),
                           .keys = keys.all(),
                           .values = keys.all(),
                           .prefix = prefix,
                           .masks = masks,
                           .heads = heads,
                           .y = y.all(),
                           .scale = 0.125f,
                           .window = window,
                           .positions = positions,
                           .sinks = sinks.table});
      const Floats together = values_of(backend(), y.all());
      for (const std::uint32_t r : {0u, 1u, 17u, kRows - 1}) {
        const std::uint32_t position = positions[r];
        const std::uint32_t begin = position + 1 - std::min(window, position + 1);
        Floats poisoned = numbers;
        std::fill_n(poisoned.begin(), begin * kv_cols, NAN);
        const OwnedMatrix poisoned_keys = matrix_of(backend(), slots, heads.kv_cols(), poisoned);
        backend().attention({.q = q.all().row_range(r, 1),
                             .keys = poisoned_keys.all(),
                             .values = poisoned_keys.all(),
                             .prefix = position + 1,
                             .masks = {},
                             .heads = heads,
                             .y = y.rows(1),
                             .scale = 0.125f,
                             .window = window,
                             .positions = std::span(&position, 1),
                             .sinks = sinks.table});
        EXPECT_TRUE(same_bytes(values_of(backend(), y.rows(1)),
                               std::span(together).subspan(r * query_cols, query_cols)))
            << "row " << r << ", prefix " << prefix << ", window " << window;
      }
    }
  }
}

// Enough rows and slots that a backend may split its work differently than for one row.
TEST_P(AttentionTest, RowsOfWidePassMatchSingleRowsBitForBit) {
  const HeadShape heads{.query_heads = 16, .kv_heads = 4, .head_dim = 8};
  constexpr std::uint32_t kRows = kMaskRowsMax;
  constexpr std::uint32_t kPrefix = 333;
  const std::size_t query_cols = heads.query_cols();
  const Floats q = random_floats(1, kRows * query_cols);
  const OwnedMatrix q_matrix = matrix_of(backend(), kRows, heads.query_cols(), q);
  const auto cache = [&](std::uint64_t seed) {
    const std::uint32_t slots = kPrefix + kRows;
    return matrix_of(backend(), slots, heads.kv_cols(),
                     random_floats(seed, slots * std::size_t{heads.kv_cols()}));
  };
  const OwnedMatrix keys = cache(2);
  const OwnedMatrix values = cache(3);
  const Floats together = attend(backend(), heads, q_matrix.all(), keys.all(), values.all(),
                                 kPrefix, causal_masks(kRows));
  for (const std::uint32_t r : {0u, 17u, 18u, 179u, kRows - 1}) {
    const Floats alone = attend(backend(), heads, q_matrix.all().row_range(r, 1), keys.all(),
                                values.all(), kPrefix + r, causal_masks(1));
    EXPECT_TRUE(same_bytes(alone, std::span(together).subspan(r * query_cols, query_cols)))
        << "row " << r;
  }
}

// Scores of several hundred: without the running maximum e^score overflows.
TEST_P(AttentionTest, SurvivesLargeScores) {
  constexpr std::uint32_t kSlots = 200;
  Floats keys(kSlots * 2);
  Floats values(kSlots * 2);
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    keys[2 * slot] = static_cast<float>(slot * 5);
    values[2 * slot] = static_cast<float>(slot);
  }
  const OwnedMatrix q = matrix_of(backend(), 1, 2, Floats{1, 0});
  const OwnedMatrix keys_matrix = matrix_of(backend(), kSlots, 2, keys);
  const OwnedMatrix values_matrix = matrix_of(backend(), kSlots, 2, values);
  const Floats y =
      attend(backend(), kOneHead, q.all(), keys_matrix.all(), values_matrix.all(), kSlots, {});
  // The last slot leads by 5 / sqrt(2): weights 1 : 0.0292 : 0.0292^2 ...
  const double ratio = std::exp(-5.0 / std::sqrt(2.0));
  EXPECT_NEAR(y[0], 199.0 - ratio / (1.0 - ratio), 1e-3);
}

using GroupAttentionTest = OpTest;

TEST_P(GroupAttentionTest, SeesOnlyItsGroup) {
  const OwnedMatrix q(backend(), 4, 2);  // zeros: even weights
  const OwnedMatrix k(backend(), 4, 2);
  const OwnedMatrix v = matrix_of(backend(), 4, 2, Floats{1, 2, 3, 4, 10, 20, 30, 40});
  const OwnedMatrix y(backend(), 4, 2);
  backend().group_attention({.q = q.all(),
                             .k = k.all(),
                             .v = v.all(),
                             .group_rows = 2,
                             .heads = {.query_heads = 1, .kv_heads = 1, .head_dim = 2},
                             .y = y.all()});
  EXPECT_EQ(values_of(backend(), y.all()), (Floats{2, 3, 2, 3, 20, 30, 20, 30}));
}

TEST_P(GroupAttentionTest, AgreesWithFloat64) {
  const HeadShape heads{.query_heads = 4, .kv_heads = 2, .head_dim = 64};
  for (const std::uint32_t group_rows : {1u, 4u, 9u, 32u, 80u}) {
    const std::uint32_t rows = 3 * group_rows;
    const Floats q = random_floats(1, std::size_t{rows} * heads.query_cols());
    const Floats k = random_floats(2, std::size_t{rows} * heads.kv_cols());
    const Floats v = random_floats(3, std::size_t{rows} * heads.kv_cols());
    const OwnedMatrix q_matrix = matrix_of(backend(), rows, heads.query_cols(), q);
    const OwnedMatrix k_matrix = matrix_of(backend(), rows, heads.kv_cols(), k);
    const OwnedMatrix v_matrix = matrix_of(backend(), rows, heads.kv_cols(), v);
    const OwnedMatrix y_matrix(backend(), rows, heads.query_cols());
    backend().group_attention({.q = q_matrix.all(),
                               .k = k_matrix.all(),
                               .v = v_matrix.all(),
                               .group_rows = group_rows,
                               .heads = heads,
                               .y = y_matrix.all()});
    const Floats y = values_of(backend(), y_matrix.all());
    std::vector<std::uint32_t> slots(group_rows);
    for (std::size_t r = 0; r < rows; ++r) {
      std::iota(slots.begin(), slots.end(),
                static_cast<std::uint32_t>(r / group_rows * group_rows));
      for (std::size_t h = 0; h < heads.query_heads; ++h) {
        const std::size_t at = r * heads.query_cols() + h * heads.head_dim;
        const auto exact = exact_attention(std::span(q).subspan(at, heads.head_dim), k, v, slots,
                                           heads.kv_cols(), h / 2 * heads.head_dim,
                                           1.0 / std::sqrt(static_cast<double>(heads.head_dim)));
        for (std::size_t d = 0; d < heads.head_dim; ++d) {
          expect_near(y[at + d], exact[d], kTolerance, "row " + std::to_string(r));
        }
      }
    }
  }
}

EDGEDRAFT_FOR_ALL_BACKENDS(AttentionTest);
EDGEDRAFT_FOR_ALL_BACKENDS(GroupAttentionTest);

}  // namespace
}  // namespace edgedraft::testing
