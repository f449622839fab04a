#include "tests/runtime/op_test.h"

namespace edgedraft::testing {
namespace {

using EmbedTest = OpTest;
using RmsNormTest = OpTest;
using RopeTest = OpTest;
using GateTest = OpTest;
using ScaleTest = OpTest;
using SoftCapTest = OpTest;
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

// Heads of queries and keys share one weight.
TEST_P(RmsNormTest, NormalizesEachGroupByItself) {
  for (const std::uint32_t cols : {2u, 33u, 64u, 128u, 256u}) {
    for (const std::uint32_t groups : {2u, 9u}) {
      const std::size_t row = std::size_t{groups} * cols;
      const Floats x = random_floats(cols, 3 * row);
      const OwnedMatrix x_matrix = matrix_of(backend(), 3, groups * cols, x);
      const TestWeight weight(backend(), DType::f32, 1, cols, random_floats(7, cols));
      backend().rms_norm(
          {.x = x_matrix.all(), .weight = weight.table, .y = x_matrix.all(), .epsilon = 1e-6f});
      const Floats y = values_of(backend(), x_matrix.all());
      for (std::size_t group = 0; group < std::size_t{3} * groups; ++group) {
        double squares = 0.0;
        for (std::size_t i = group * cols; i < (group + 1) * cols; ++i) {
          squares += double{x[i]} * double{x[i]};
        }
        const double scale = 1.0 / std::sqrt(squares / cols + double{1e-6f});
        for (std::size_t i = 0; i < cols; ++i) {
          const double exact = double{x[group * cols + i]} * scale * double{weight.decoded[i]};
          expect_near(y[group * cols + i], exact, sum_tolerance(cols, std::fabs(exact)),
                      std::to_string(groups) + " groups of " + std::to_string(cols));
        }
      }
    }
  }
}

TEST_P(RmsNormTest, AddsToItsOutput) {
  for (const std::uint32_t groups : {1u, 3u}) {
    const std::uint32_t cols = 3 * 34 / groups;
    const OwnedMatrix x = matrix_of(backend(), 2, 3 * 34, random_floats(1, 2 * 3 * 34));
    const Floats before = random_floats(2, 2 * 3 * 34);
    const OwnedMatrix sum = matrix_of(backend(), 2, 3 * 34, before);
    const OwnedMatrix alone(backend(), 2, 3 * 34);
    const TestWeight weight(backend(), DType::f32, 1, cols, random_floats(7, cols));
    const RmsNormOp norm{.x = x.all(), .weight = weight.table, .y = alone.all(), .epsilon = 1e-6f};
    backend().rms_norm(norm);
    backend().rms_norm({.x = norm.x,
                        .weight = norm.weight,
                        .y = sum.all(),
                        .epsilon = norm.epsilon,
                        .into = Into::accumulate});
    const Floats normed = values_of(backend(), alone.all());
    const Floats y = values_of(backend(), sum.all());
    for (std::size_t i = 0; i < y.size(); ++i) {
      expect_near(y[i], double{before[i]} + double{normed[i]}, 4e-7, "sum");
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
                  .rotated = 4,
                  .style = RopeStyle::halves});
  EXPECT_EQ(values_of(backend(), halves.all()), (Floats{1, 2, 3, 4, -3, 2, 1, 4}));

  const OwnedMatrix pairs = matrix_of(backend(), 2, 4, x);
  backend().rope({.x = pairs.all(),
                  .positions = positions,
                  .cos_sin = table.all(),
                  .head_dim = 4,
                  .rotated = 4,
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
                      .rotated = head_dim,
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

// The other dimensions of each head stay.
TEST_P(RopeTest, RotatesOnlyTheFirstDimensions) {
  const OwnedMatrix table = matrix_of(backend(), 2, 4,
                                      Floats{1, 1, 0, 0,  //
                                             0, 1, 1, 0});
  const std::vector<std::uint32_t> positions = {1};
  const Floats x = {1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16};
  const auto rotated_by = [&](std::uint32_t rotated, RopeStyle style) {
    const OwnedMatrix matrix = matrix_of(backend(), 1, 12, x);
    backend().rope({.x = matrix.all(),
                    .positions = positions,
                    .cos_sin = rotated > 0 ? table.all() : Matrix{},
                    .head_dim = 6,
                    .rotated = rotated,
                    .style = style});
    return values_of(backend(), matrix.all());
  };
  EXPECT_EQ(rotated_by(4, RopeStyle::halves), (Floats{-3, 2, 1, 4, 5, 6, -13, 12, 11, 14, 15, 16}));
  EXPECT_EQ(rotated_by(4, RopeStyle::pairs), (Floats{-2, 1, 3, 4, 5, 6, -12, 11, 13, 14, 15, 16}));
  EXPECT_EQ(rotated_by(0, RopeStyle::halves), x);
}

TEST_P(GateTest, IsZeroAtZeroAndProductForLargeGates) {
  const OwnedMatrix gate = matrix_of(backend(), 1, 3, Floats{0, 64, -200});
  const OwnedMatrix up = matrix_of(backend(), 1, 3, Floats{5, 2, 1});
  const OwnedMatrix y(backend(), 1, 3);
  backend().gate(
      {.gate = gate.all(), .up = up.all(), .y = y.all(), .activation = Activation::silu});
  const Floats values = values_of(backend(), y.all());
  EXPECT_EQ(values[0], 0.0f);
  EXPECT_EQ(values[1], 128.0f);
  EXPECT_NEAR(values[2], 0.0f, 1e-30f);
}

constexpr Activation kActivations[] = {Activation::silu, Activation::gelu, Activation::clamped,
                                       Activation::sigmoid, Activation::identity};

double exact_gated(Activation activation, double gate, double up) {
  switch (activation) {
    case Activation::silu:
      return gate / (1.0 + std::exp(-gate)) * up;
    case Activation::gelu:
      return gate / 2.0 * up *
             (1.0 + std::tanh(0.7978845608028654 * (gate + 0.044715 * std::pow(gate, 3.0))));
    case Activation::clamped:
      gate = std::min(gate, 7.0);
      return gate / (1.0 + std::exp(-1.702 * gate)) * (std::clamp(up, -7.0, 7.0) + 1.0);
    case Activation::sigmoid:
      return up / (1.0 + std::exp(-gate));
    case Activation::identity:
      break;
  }
  return gate * up;
}

TEST_P(GateTest, AgreesWithFloat64InPlaceAndOutOfPlace) {
  for (const Activation activation : kActivations) {
    for (const std::uint32_t cols : {1u, 31u, 32u, 33u, 127u, 128u, 768u}) {
      Floats gate = random_floats(cols, 2 * cols);
      for (float& g : gate) g *= 30.0f;
      Floats up = random_floats(cols + 1, 2 * cols);
      if (activation == Activation::clamped) {
        for (float& u : up) u *= 10.0f;
      }
      for (const int into : {0, 1, 2}) {
        const OwnedMatrix matrices[] = {OwnedMatrix(backend(), 2, cols),
                                        matrix_of(backend(), 2, cols, gate),
                                        matrix_of(backend(), 2, cols, up)};
        backend().gate({.gate = matrices[1].all(),
                        .up = matrices[2].all(),
                        .y = matrices[into].all(),
                        .activation = activation});
        const Floats y = values_of(backend(), matrices[into].all());
        for (std::size_t i = 0; i < y.size(); ++i) {
          const double exact = exact_gated(activation, double{gate[i]}, double{up[i]});
          // Exponents are products here, whose rounding errors grow with them.
          const bool is_product =
              activation == Activation::gelu || activation == Activation::clamped;
          const double relative = is_product ? 1e-5 : 1e-6;
          expect_near(y[i], exact, relative * std::fabs(exact) + 1e-14,
                      "activation " + std::to_string(static_cast<int>(activation)) + ", gate " +
                          std::to_string(gate[i]));
        }
      }
    }
  }
}

// As a gate of equal columns, bit for bit.
TEST_P(GateTest, OneColumnGatesItsWholeRow) {
  for (const Activation activation : kActivations) {
    for (const std::uint32_t cols : {5u, 64u, 301u}) {
      const Floats gate = {-1.5f, 2.25f};
      Floats repeated(gate.size() * cols);
      for (std::size_t i = 0; i < repeated.size(); ++i) repeated[i] = gate[i / cols];
      const OwnedMatrix one = matrix_of(backend(), 2, 1, gate);
      const OwnedMatrix all = matrix_of(backend(), 2, cols, repeated);
      const OwnedMatrix up = matrix_of(backend(), 2, cols, random_floats(1, 2 * cols));
      const OwnedMatrix y(backend(), 2, cols);
      backend().gate({.gate = all.all(), .up = up.all(), .y = y.all(), .activation = activation});
      backend().gate({.gate = one.all(), .up = up.all(), .y = up.all(), .activation = activation});
      EXPECT_TRUE(same_bytes(values_of(backend(), up.all()), values_of(backend(), y.all())))
          << "activation " << static_cast<int>(activation) << ", " << cols << " columns";
    }
  }
}

TEST_P(ScaleTest, MultipliesInPlace) {
  const OwnedMatrix x = matrix_of(backend(), 2, 3, Floats{1, -2, 3, 4, 5, 6});
  backend().scale({.x = x.all().column_range(0, 2), .factor = 0.5f});
  EXPECT_EQ(values_of(backend(), x.all()), (Floats{0.5f, -1, 3, 2, 2.5f, 6}));
}

TEST_P(SoftCapTest, AgreesWithFloat64) {
  for (const float cap : {30.0f, 50.0f}) {
    for (const std::uint32_t cols : {1u, 33u, 1000u}) {
      Floats x = random_floats(cols, 2 * cols);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] *= i % 3 == 0 ? 1000.0f : 60.0f;
      const OwnedMatrix matrix = matrix_of(backend(), 2, cols, x);
      backend().soft_cap({.x = matrix.all(), .cap = cap});
      const Floats y = values_of(backend(), matrix.all());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = double{cap} * std::tanh(double{x[i]} / double{cap});
        expect_near(y[i], exact, 4e-7 * double{cap}, "capped " + std::to_string(x[i]));
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
EDGEDRAFT_FOR_ALL_BACKENDS(GateTest);
EDGEDRAFT_FOR_ALL_BACKENDS(ScaleTest);
EDGEDRAFT_FOR_ALL_BACKENDS(SoftCapTest);
EDGEDRAFT_FOR_ALL_BACKENDS(GroupMeanTest);

}  // namespace
}  // namespace edgedraft::testing
