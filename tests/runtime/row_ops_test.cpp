#include "tests/runtime/op_test.h"

namespace edgedraft::testing {
namespace {

using EmbedTest = OpTest;
using RmsNormTest = OpTest;
using RopeTest = OpTest;
using SwigluTest = OpTest;
using GroupMeanTest = OpTest;

TEST_P(EmbedTest, SelectsRowsOfTokens) {
  const TestWeight table(backend(), DType::f16, 3, 2, Floats{1, 2, 3, 4, 5, 6});
  const OwnedMatrix y(backend(), 4, 2);
  const std::vector<std::uint32_t> tokens = {2, 0, 0, 1};
  backend().embed({.table = table.table, .tokens = tokens, .y = y.all()});
  EXPECT_EQ(values_of(backend(), y.all()), (Floats{5, 6, 1, 2, 1, 2, 3, 4}));
}

TEST_P(EmbedTest, DecodesEveryTypeExactly) {
  for (const DType type : kDTypes) {
    for (const std::uint32_t cols : {1u, 31u, 32u, 33u, 127u, 128u, 256u, 768u}) {
      if (cols % traits(type).block_count != 0) continue;
      const TestWeight table(backend(), type, 2, cols, random_floats(cols, 2 * cols));
      const OwnedMatrix y(backend(), 2, cols);
      const std::vector<std::uint32_t> tokens = {0, 1};
      backend().embed({.table = table.table, .tokens = tokens, .y = y.all()});
      EXPECT_TRUE(same_bytes(values_of(backend(), y.all()), table.decoded))
          << traits(type).name << " " << cols;
    }
  }
}

TEST_P(RmsNormTest, DividesByRootMeanSquare) {
  // The mean of the squares is 12.5, and with epsilon 3.5 the root is 4.
  const OwnedMatrix x = matrix_of(backend(), 1, 2, Floats{3, 4});
  const TestWeight weight(backend(), DType::f32, 1, 2, Floats{1, 10});
  const OwnedMatrix y(backend(), 1, 2);
  backend().rms_norm({.x = x.all(), .weight = weight.table, .y = y.all(), .epsilon = 3.5f});
  EXPECT_EQ(values_of(backend(), y.all()), (Floats{0.75f, 10.0f}));
}

TEST_P(RmsNormTest, AgreesWithFloat64InPlaceAndOutOfPlace) {
  for (const std::uint32_t cols : {1u, 31u, 32u, 33u, 127u, 128u, 4096u}) {
    const Floats x = random_floats(cols, 3 * cols);
    const OwnedMatrix x_matrix = matrix_of(backend(), 3, cols, x);
    const OwnedMatrix y_matrix(backend(), 3, cols);
    const TestWeight weight(backend(), DType::f32, 1, cols, random_floats(7, cols));
    for (const Matrix& y_place : {y_matrix.all(), x_matrix.all()}) {
      backend().rms_norm(
          {.x = x_matrix.all(), .weight = weight.table, .y = y_place, .epsilon = 1e-5f});
      const Floats y = values_of(backend(), y_place);
      for (std::size_t r = 0; r < 3; ++r) {
        double squares = 0.0;
        for (std::size_t i = 0; i < cols; ++i) {
          squares += double{x[r * cols + i]} * double{x[r * cols + i]};
        }
        const double scale = 1.0 / std::sqrt(squares / cols + double{1e-5f});
        for (std::size_t i = 0; i < cols; ++i) {
          const double exact = double{x[r * cols + i]} * scale * double{weight.decoded[i]};
          expect_near(y[r * cols + i], exact, sum_tolerance(cols, std::fabs(exact)),
                      std::to_string(cols) + " columns");
        }
      }
    }
  }
}

// A quarter turn: (a, b) becomes (-b, a).
TEST_P(RopeTest, RotatesPairsByPosition) {
  const OwnedMatrix table = matrix_of(backend(), 2, 4,
                                      Floats{1, 1, 0, 0,  //
                                             0, 1, 1, 0});
  const std::vector<std::uint32_t> positions = {0, 1};
  const Floats x = {1, 2, 3, 4, 1, 2, 3, 4};

  const OwnedMatrix halves = matrix_of(backend(), 2, 4, x);
  backend().rope({.x = halves.all(),
                  .positions = positions,
                  .cos_sin = table.all(),
                  .head_dim = 4,
                  .style = RopeStyle::halves});
  EXPECT_EQ(values_of(backend(), halves.all()), (Floats{1, 2, 3, 4, -3, 2, 1, 4}));

  const OwnedMatrix pairs = matrix_of(backend(), 2, 4, x);
  backend().rope({.x = pairs.all(),
                  .positions = positions,
                  .cos_sin = table.all(),
                  .head_dim = 4,
                  .style = RopeStyle::pairs});
  EXPECT_EQ(values_of(backend(), pairs.all()), (Floats{1, 2, 3, 4, -2, 1, 3, 4}));
}

TEST_P(RopeTest, AgreesWithFloat64ForEveryHeadAndSize) {
  for (const std::uint32_t head_dim : {2u, 32u, 34u, 64u, 128u, 256u}) {
    const std::uint32_t cols = 3 * head_dim;
    const std::uint32_t half = head_dim / 2;
    const Floats x = random_floats(head_dim, 2 * cols);
    const Floats table = random_floats(5, 4 * head_dim);
    const OwnedMatrix table_matrix = matrix_of(backend(), 4, head_dim, table);
    const std::vector<std::uint32_t> positions = {3, 1};
    for (const RopeStyle style : {RopeStyle::halves, RopeStyle::pairs}) {
      const OwnedMatrix matrix = matrix_of(backend(), 2, cols, x);
      backend().rope({.x = matrix.all(),
                      .positions = positions,
                      .cos_sin = table_matrix.all(),
                      .head_dim = head_dim,
                      .style = style});
      const Floats y = values_of(backend(), matrix.all());
      const bool halves = style == RopeStyle::halves;
      for (std::size_t r = 0; r < 2; ++r) {
        for (std::size_t i = 0; i < cols / 2; ++i) {
          const std::size_t head = r * cols + i / half * head_dim;
          const std::size_t a = head + (halves ? i % half : 2 * (i % half));
          const std::size_t b = a + (halves ? half : 1);
          const double c = double{table[positions[r] * head_dim + i % half]};
          const double s = double{table[positions[r] * head_dim + half + i % half]};
          expect_near(y[a], double{x[a]} * c - double{x[b]} * s, 3e-7, "first of a pair");
          expect_near(y[b], double{x[b]} * c + double{x[a]} * s, 3e-7, "second of a pair");
        }
      }
    }
  }
}

TEST_P(SwigluTest, IsZeroAtZeroAndProductForLargeGates) {
  const OwnedMatrix gate = matrix_of(backend(), 1, 3, Floats{0, 64, -200});
  const OwnedMatrix up = matrix_of(backend(), 1, 3, Floats{5, 2, 1});
  const OwnedMatrix y(backend(), 1, 3);
  backend().swiglu({.gate = gate.all(), .up = up.all(), .y = y.all()});
  const Floats values = values_of(backend(), y.all());
  EXPECT_EQ(values[0], 0.0f);
  EXPECT_EQ(values[1], 128.0f);
  EXPECT_NEAR(values[2], 0.0f, 1e-30f);
}

TEST_P(SwigluTest, AgreesWithFloat64InPlaceAndOutOfPlace) {
  for (const std::uint32_t cols : {1u, 31u, 32u, 33u, 127u, 128u, 768u}) {
    Floats gate = random_floats(cols, 2 * cols);
    for (float& g : gate) g *= 30.0f;
    const Floats up = random_floats(cols + 1, 2 * cols);
    for (const int into : {0, 1, 2}) {
      const OwnedMatrix matrices[] = {OwnedMatrix(backend(), 2, cols),
                                      matrix_of(backend(), 2, cols, gate),
                                      matrix_of(backend(), 2, cols, up)};
      backend().swiglu(
          {.gate = matrices[1].all(), .up = matrices[2].all(), .y = matrices[into].all()});
      const Floats y = values_of(backend(), matrices[into].all());
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double g = double{gate[i]};
        const double exact = g / (1.0 + std::exp(-g)) * double{up[i]};
        expect_near(y[i], exact, 1e-6 * std::fabs(exact) + 1e-37, "gate " + std::to_string(g));
      }
    }
  }
}

TEST_P(GroupMeanTest, AveragesConsecutiveRows) {
  const OwnedMatrix x = matrix_of(backend(), 4, 2, Floats{1, 2, 3, 6, 10, 0, 20, 1});
  const OwnedMatrix y(backend(), 2, 2);
  backend().group_mean({.x = x.all(), .group_rows = 2, .y = y.all()});
  EXPECT_EQ(values_of(backend(), y.all()), (Floats{2, 4, 15, 0.5f}));
}

TEST_P(GroupMeanTest, AgreesWithFloat64) {
  for (const std::uint32_t group_rows : kAwkwardCounts) {
    const std::uint32_t cols = 33;
    const Floats x = random_floats(group_rows, 3 * group_rows * cols);
    const OwnedMatrix x_matrix = matrix_of(backend(), 3 * group_rows, cols, x);
    const OwnedMatrix y_matrix(backend(), 3, cols);
    backend().group_mean({.x = x_matrix.all(), .group_rows = group_rows, .y = y_matrix.all()});
    const Floats y = values_of(backend(), y_matrix.all());
    for (std::size_t i = 0; i < y.size(); ++i) {
      double sum = 0.0;
      for (std::size_t r = 0; r < group_rows; ++r) {
        sum += double{x[(i / cols * group_rows + r) * cols + i % cols]};
      }
      expect_near(y[i], sum / group_rows, sum_tolerance(group_rows, 1.0), "mean");
    }
  }
}

EDGEDRAFT_FOR_ALL_BACKENDS(EmbedTest);
EDGEDRAFT_FOR_VULKAN_FEATURES(EmbedTest);
EDGEDRAFT_FOR_ALL_BACKENDS(RmsNormTest);
EDGEDRAFT_FOR_ALL_BACKENDS(RopeTest);
EDGEDRAFT_FOR_ALL_BACKENDS(SwigluTest);
EDGEDRAFT_FOR_ALL_BACKENDS(GroupMeanTest);

}  // namespace
}  // namespace edgedraft::testing
