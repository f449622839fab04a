#include "tests/runtime/op_test.h"

namespace edgedraft::testing {
namespace {

struct Shape {
  std::uint32_t rows;
  std::uint32_t inputs;
  std::uint32_t outputs;
};

class MatmulTest : public OpTest {
 protected:
  // Multiplies random values.
  void expect_right(DType type, const Shape& s) {
    const Floats x = random_floats(s.rows, std::size_t{s.rows} * s.inputs);
    const TestWeight w(backend(), type, s.outputs, s.inputs,
                       random_floats(s.outputs, std::size_t{s.outputs} * s.inputs));
    expect_right(w, x, s);
  }

  // Compares the result with sums in float64.
  void expect_right(const TestWeight& w, const Floats& x, const Shape& s) {
    const DType type = w.weight.type;
    const OwnedMatrix x_matrix = matrix_of(backend(), s.rows, s.inputs, x);
    const OwnedMatrix y_matrix(backend(), s.rows, s.outputs);
    backend().matmul({.x = x_matrix.all(), .weight = w.weight, .bias = {}, .y = y_matrix.all()});
    const Floats y = values_of(backend(), y_matrix.all());

    const bool rounds = rounds_activations(backend(), type);
    for (std::size_t r = 0; r < s.rows; ++r) {
      const auto row = std::span(x).subspan(r * s.inputs, s.inputs);
      const auto rounded = rounded_activations(backend(), row);
      for (std::size_t o = 0; o < s.outputs; ++o) {
        double exact = 0.0;
        double magnitude = 0.0;
        for (std::size_t i = 0; i < s.inputs; ++i) {
          const double activation = rounds ? rounded[i].value : double{row[i]};
          const double product = activation * double{w.decoded[o * s.inputs + i]};
          exact += product;
          magnitude += std::fabs(product);
        }
        expect_near(y[r * s.outputs + o], exact, sum_tolerance(s.inputs, magnitude),
                    std::string(traits(type).name) + " row " + std::to_string(r) + " output " +
                        std::to_string(o) + " of " + std::to_string(s.rows) + "x" +
                        std::to_string(s.inputs) + "x" + std::to_string(s.outputs));
      }
    }
  }
};

class FloatMatmulTest : public MatmulTest {};

TEST_P(MatmulTest, MatchesHandComputedProduct) {
  const OwnedMatrix x = matrix_of(backend(), 2, 3, Floats{1, 2, 3, 0, -1, 4});
  const TestWeight w(backend(), DType::f32, 2, 3, Floats{1, 0, 2, -1, 1, 0.5f});
  const TestWeight bias(backend(), DType::f32, 1, 2, Floats{10, 20});
  const OwnedMatrix y = matrix_of(backend(), 2, 2, Floats{100, 100, 100, 100});

  backend().matmul({.x = x.all(), .weight = w.weight, .bias = {}, .y = y.all()});
  EXPECT_EQ(values_of(backend(), y.all()), (Floats{7, 2.5f, 8, 1}));
  backend().matmul({.x = x.all(), .weight = w.weight, .bias = bias.table, .y = y.all()});
  EXPECT_EQ(values_of(backend(), y.all()), (Floats{17, 22.5f, 18, 21}));
  backend().matmul({.x = x.all(),
                    .weight = w.weight,
                    .bias = bias.table,
                    .y = y.all(),
                    .into = Into::accumulate});
  EXPECT_EQ(values_of(backend(), y.all()), (Floats{34, 45, 36, 42}));
}

TEST_P(MatmulTest, AgreesWithFloat64AtAwkwardSizes) {
  for (const DType type : kDTypes) {
    const std::uint32_t block = traits(type).block_count;
    for (const std::uint32_t count : kAwkwardCounts) {
      if (count % block == 0) expect_right(type, {3, count, 33});
      expect_right(type, {2, std::max(block, 64u), count});
      expect_right(type, {count, std::max(block, 32u), 31});
    }
  }
}

TEST_P(MatmulTest, AgreesWithFloat64AtModelSizes) {
  for (const DType type : kDTypes) {
    expect_right(type, {1, 256, 768});
    expect_right(type, {62, 768, 256});
    expect_right(type, {62, 2048, 64});
    expect_right(type, {7, 4096, 128});
    if (544 % traits(type).block_count == 0) expect_right(type, {130, 544, 65});
    expect_right(type, {130, 1280, 65});
  }
}

// A CPU adds chains of 64 inputs and takes rows in tiles of up to 12. Some calls have more rows
// than sums.
TEST_P(FloatMatmulTest, AgreesWithFloat64WithTails) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const std::uint32_t inputs : {63u, 64u, 65u, 130u}) {
      for (const std::uint32_t rows : {6u, 7u, 12u, 13u, 25u})
        expect_right(type, {rows, inputs, 3});
    }
    for (const std::uint32_t rows : {144u, 145u, 256u, 301u}) expect_right(type, {rows, 67, 35});
  }
}

// Values of one sign have the largest sums; no intermediate result may saturate.
TEST_P(MatmulTest, SumsLargestValuesWithoutSaturation) {
  for (const std::uint32_t rows : {1u, 2u, 3u, 4u, 5u, 6u, 32u}) {
    const Shape s{rows, 256, 34};
    const auto ones = [&s](std::uint32_t count) {  // every other row negative
      Floats numbers(std::size_t{count} * s.inputs);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = i / s.inputs % 2 == 0 ? 1.0f : -1.0f;
      }
      return numbers;
    };
    const Floats x = ones(rows);
    for (const DType type : kDTypes) {
      expect_right(TestWeight(backend(), type, s.outputs, s.inputs, ones(s.outputs)), x, s);
    }
    // A file may contain -128, which quantising never produces.
    const DTypeTraits q8_0 = traits(DType::q8_0);
    Bytes least(std::size_t{s.outputs} * s.inputs / q8_0.block_count * q8_0.block_bytes,
                std::byte{0x80});
    for (std::size_t i = 0; i < least.size(); i += q8_0.block_bytes) {
      store_le(&least[i], std::uint16_t{0x2000});  // 2^-7
    }
    expect_right(TestWeight(backend(), DType::q8_0, s.outputs, s.inputs, least), x, s);
  }
}

// backend.h's promise for rounded activations: each is off by at most half a scale.
TEST_P(MatmulTest, RoundsActivationsByAtMostHalfAScale) {
  constexpr std::uint32_t kInputs = 768;
  constexpr std::uint32_t kOutputs = 96;
  Floats x = random_floats(1, kInputs);
  for (std::size_t i = 0; i < kInputs; i += 97) x[i] *= 30.0f;  // outliers coarsen their group
  const auto rounded = rounded_activations(backend(), x);
  for (const DType type : kDTypes) {
    const TestWeight w(backend(), type, kOutputs, kInputs, random_floats(2, kOutputs * kInputs));
    const OwnedMatrix x_matrix = matrix_of(backend(), 1, kInputs, x);
    const OwnedMatrix y_matrix(backend(), 1, kOutputs);
    backend().matmul({.x = x_matrix.all(), .weight = w.weight, .bias = {}, .y = y_matrix.all()});
    const Floats y = values_of(backend(), y_matrix.all());
    for (std::size_t o = 0; o < kOutputs; ++o) {
      double exact = 0.0;
      double magnitude = 0.0;
      double rounding = 0.0;
      for (std::size_t i = 0; i < kInputs; ++i) {
        const double weight{w.decoded[o * kInputs + i]};
        exact += double{x[i]} * weight;
        magnitude += std::fabs(double{x[i]} * weight);
        // Slightly more than half, to cover the rounding of the float32 product.
        rounding += 0.50001 * rounded[i].scale * std::fabs(weight);
      }
      if (!rounds_activations(backend(), type)) rounding = 0.0;
      expect_near(y[o], exact, rounding + sum_tolerance(kInputs, magnitude),
                  std::string(traits(type).name) + " output " + std::to_string(o));
    }
  }
}

TEST_P(MatmulTest, SharesInputAmongMatmuls) {
  constexpr std::uint32_t kRows = 5;
  constexpr std::uint32_t kInputs = 256;
  const OwnedMatrix x = matrix_of(backend(), kRows, kInputs, random_floats(1, kRows * kInputs));
  std::vector<TestWeight> weights;
  std::vector<OwnedMatrix> alone;
  std::vector<OwnedMatrix> together;
  std::vector<MatmulOp> ops;
  for (const DType type : kDTypes) {
    const auto outputs = static_cast<std::uint32_t>(20 + 31 * weights.size());
    weights.emplace_back(backend(), type, outputs, kInputs, random_floats(2, outputs * kInputs));
    alone.emplace_back(backend(), kRows, outputs);
    together.emplace_back(backend(), kRows, outputs);
    ops.push_back(
        {.x = x.all(), .weight = weights.back().weight, .bias = {}, .y = alone.back().all()});
    backend().matmul(ops.back());
    ops.back().y = together.back().all();
  }
  backend().matmuls(ops);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    EXPECT_TRUE(
        same_bytes(values_of(backend(), together[i].all()), values_of(backend(), alone[i].all())))
        << traits(kDTypes[i]).name;
  }
}

TEST_P(MatmulTest, PropagatesNonFiniteValues) {
  const TestWeight w(backend(), DType::q8_0, 40, 256, random_floats(1, 40 * 256));
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), INFINITY, -INFINITY}) {
    Floats x = random_floats(2, 2 * 256);
    x[200] = odd;
    const OwnedMatrix x_matrix = matrix_of(backend(), 2, 256, x);
    const OwnedMatrix y_matrix(backend(), 2, 40);
    backend().matmul({.x = x_matrix.all(), .weight = w.weight, .bias = {}, .y = y_matrix.all()});
    const Floats y = values_of(backend(), y_matrix.all());
    for (std::size_t o = 0; o < 40; ++o) {
      EXPECT_FALSE(std::isfinite(y[o])) << odd;
      EXPECT_TRUE(std::isfinite(y[40 + o])) << odd;
    }
  }
}

// Subnormals, the largest values and both signs; a product with 1 exposes the decoded value.
TEST_P(MatmulTest, DecodesEveryFloat16Exactly) {
  constexpr std::uint32_t kCount = 0x7C00;
  for (const std::uint32_t sign : {0u, 0x8000u}) {
    Bytes bytes(2 * kCount);
    for (std::uint32_t i = 0; i < kCount; ++i) {
      store_le(&bytes[2 * i], static_cast<std::uint16_t>(sign | i));
    }
    const auto buffer =
        backend().upload_matrix({.type = DType::f16, .rows = kCount, .cols = 1, .bytes = bytes});
    const OwnedMatrix x = matrix_of(backend(), 1, 1, Floats{1.0f});
    const OwnedMatrix y(backend(), 1, kCount);
    backend().matmul(
        {.x = x.all(),
         .weight = {.buffer = buffer.get(), .type = DType::f16, .rows = kCount, .cols = 1},
         .bias = {},
         .y = y.all()});
    const Floats values = values_of(backend(), y.all());
    for (std::uint32_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(values[i], half_to_float(static_cast<std::uint16_t>(sign | i))) << i;
    }
  }
}

TEST_P(MatmulTest, KeepsColumnsBesideOutput) {
  const OwnedMatrix x = matrix_of(backend(), 2, 33, random_floats(1, 66));
  const TestWeight w(backend(), DType::f32, 5, 33, random_floats(2, 5 * 33));
  const OwnedMatrix y = matrix_of(backend(), 2, 9, Floats(18, 7.0f));
  backend().matmul({.x = x.all(), .weight = w.weight, .bias = {}, .y = y.all().column_range(2, 5)});
  const Floats values = values_of(backend(), y.all());
  for (const std::size_t column : {0, 1, 7, 8}) {
    EXPECT_EQ(values[column], 7.0f);
    EXPECT_EQ(values[9 + column], 7.0f);
  }
}

EDGEDRAFT_FOR_CPU_BACKENDS(FloatMatmulTest, 1);
EDGEDRAFT_FOR_ALL_BACKENDS(MatmulTest);
EDGEDRAFT_FOR_VULKAN_FEATURES(MatmulTest);

}  // namespace
}  // namespace edgedraft::testing
