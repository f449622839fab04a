#include <numeric>

#include "shared/runtime/planning_backend.h"
#include "tests/runtime/op_test.h"

namespace edgedraft::testing {
namespace {

// Random distinct experts per row, as numbers.
Floats random_choice(std::uint64_t seed, std::uint32_t rows, std::uint32_t used,
                     std::uint32_t experts) {
  Random random(seed);
  Floats choice;
  std::vector<float> all(experts);
  std::iota(all.begin(), all.end(), 0.0f);
  for (std::uint32_t r = 0; r < rows; ++r) {
    for (std::uint32_t u = 0; u < used; ++u) {
      std::swap(all[u], all[u + random.below(experts - u)]);
      choice.push_back(all[u]);
    }
  }
  return choice;
}

// --- route ---

struct Routing {
  Floats experts;
  Floats weights;
};

class RouteTest : public OpTest {
 protected:
  // The matrices are parts of wider ones.
  Routing route(std::span<const float> logits, std::uint32_t rows, std::uint32_t used) {
    const auto cols = static_cast<std::uint32_t>(logits.size() / rows);
    const OwnedMatrix wide(backend(), rows, cols + 3);
    const OwnedMatrix results(backend(), rows, 2 * used + 1);
    const Matrix x = wide.all().column_range(2, cols);
    backend().write(x, logits);
    const Matrix experts = results.all().column_range(0, used);
    const Matrix weights = results.all().column_range(used + 1, used);
    backend().route({.logits = x, .used = used, .experts = experts, .weights = weights});
    EXPECT_EQ(values_of(backend(), results.all().column_range(used, 1)), Floats(rows, 0.0f));
    return {values_of(backend(), experts), values_of(backend(), weights)};
  }
};

TEST_P(RouteTest, ChoosesLargestLogitsAndNormalisesOverThem) {
  const Routing routing = route(Floats{1, 3, 2, 0, -1, -3, -2, -0.5f}, 2, 2);
  EXPECT_EQ(routing.experts, (Floats{1, 2, 3, 0}));
  const float first = 1.0f / (1.0f + std::exp(-1.0f));
  const float second = 1.0f / (1.0f + std::exp(-0.5f));
  const Floats weights = {first, 1.0f - first, second, 1.0f - second};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(routing.weights[i], weights[i], 1e-6f) << i;
}

TEST_P(RouteTest, PrefersLowestIndexAmongEqualLogits) {
  for (const std::uint32_t experts : {32u, 128u, 1000u}) {
    const Routing routing = route(Floats(2 * std::size_t{experts}, -7.5f), 2, 8);
    for (std::uint32_t i = 0; i < 16; ++i) {
      EXPECT_EQ(routing.experts[i], static_cast<float>(i % 8)) << experts;
      EXPECT_NEAR(routing.weights[i], 0.125f, 1e-6f);
    }
  }
  EXPECT_EQ(route(Floats{-1, -0.0f, 0, -0.0f, 0, -2}, 1, 5).experts, (Floats{1, 2, 3, 4, 0}));
}

TEST_P(RouteTest, AgreesWithSortAndFloat64) {
  for (const std::uint32_t experts : {8u, 31u, 64u, 129u, 512u, kExpertsMax}) {
    for (const std::uint32_t used : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, kExpertsUsedMax}) {
      if (used > experts) continue;
      constexpr std::uint32_t kRows = 5;
      Floats logits = random_floats(experts + used, std::size_t{kRows} * experts);
      // Few distinct values, so that ties are frequent.
      for (float& x : logits) x = std::round(x * 60.0f) / 4.0f;
      const Routing routing = route(logits, kRows, used);
      for (std::uint32_t r = 0; r < kRows; ++r) {
        const auto x = std::span(logits).subspan(std::size_t{r} * experts, experts);
        std::vector<std::uint32_t> order(experts);
        std::iota(order.begin(), order.end(), 0u);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::uint32_t a, std::uint32_t b) { return x[a] > x[b]; });
        double all = 0.0;
        for (const float value : x) all += std::exp(double{value});
        double chosen = 0.0;
        for (std::uint32_t u = 0; u < used; ++u) chosen += std::exp(double{x[order[u]]}) / all;
        for (std::uint32_t u = 0; u < used; ++u) {
          ASSERT_EQ(routing.experts[r * used + u], static_cast<float>(order[u]))
              << "rank " << u << " of " << experts;
          // The formula of model families.
          const double weight = std::exp(double{x[order[u]]}) / all / std::max(chosen, 0x1p-14);
          expect_near(routing.weights[r * used + u], weight, 1e-6 * weight + 1e-37, "weight");
        }
      }
    }
  }
}

TEST_P(RouteTest, ReturnsValidExpertsForNanLogits) {
  Floats logits(2 * 40, NAN);
  logits[17] = 2.0f;
  for (std::size_t i = 40; i < 80; ++i) logits[i] = static_cast<float>(i);
  const Routing routing = route(logits, 2, 3);
  EXPECT_EQ(routing.experts, (Floats{17, 0, 1, 39, 38, 37}));
  for (std::size_t u = 0; u < 3; ++u) {
    EXPECT_TRUE(std::isnan(routing.weights[u]));
    EXPECT_TRUE(std::isfinite(routing.weights[3 + u]));
  }
}

// --- matmuls ---

struct ExpertShape {
  std::uint32_t experts;
  std::uint32_t rows;
  std::uint32_t used;
  std::uint32_t inputs;
  std::uint32_t outputs;
  bool x_per_pair;
};

class ExpertMatmulTest : public OpTest {
 protected:
  // Compares the result with sums in float64. x, experts and y are parts of wider matrices.
  void expect_right(DType type, const ExpertShape& s) {
    const std::uint32_t pairs = s.rows * s.used;
    const std::uint32_t x_rows = s.x_per_pair ? pairs : s.rows;
    const TestStack stack(backend(), type, s.experts, s.outputs, s.inputs);
    const TestWeight bias(backend(), DType::f32, s.experts, s.outputs,
                          random_floats(5, std::size_t{s.experts} * s.outputs));
    const Floats x = random_floats(s.rows + s.used, std::size_t{x_rows} * s.inputs);
    const Floats choice = random_choice(s.used, s.rows, s.used, s.experts);
    const OwnedMatrix wide_x(backend(), x_rows, s.inputs + 4);
    const OwnedMatrix wide_choice(backend(), s.rows, s.used + 1);
    const OwnedMatrix wide_y(backend(), pairs, s.outputs + 3);
    const Matrix x_matrix = wide_x.all().column_range(4, s.inputs);
    const Matrix experts = wide_choice.all().column_range(1, s.used);
    const Matrix y_matrix = wide_y.all().column_range(1, s.outputs);
    backend().write(x_matrix, x);
    backend().write(experts, choice);
    backend().write(wide_y.all(), Floats(std::size_t{pairs} * (s.outputs + 3), 7.0f));
    for (const bool with_bias : {false, true}) {
      backend().expert_matmul({.x = x_matrix,
                               .weight = stack.weight,
                               .bias = with_bias ? bias.table : Weight{},
                               .experts = experts,
                               .y = y_matrix});
      const Floats y = values_of(backend(), y_matrix);
      for (std::size_t pair = 0; pair < pairs; ++pair) {
        const auto expert = static_cast<std::size_t>(choice[pair]);
        const auto row =
            std::span(x).subspan((s.x_per_pair ? pair : pair / s.used) * s.inputs, s.inputs);
        const auto rounded = rounded_activations(backend(), row);
        for (std::size_t o = 0; o < s.outputs; ++o) {
          const std::size_t matrix_row = expert * s.outputs + o;
          double exact = with_bias ? double{bias.decoded[matrix_row]} : 0.0;
          double magnitude = std::fabs(exact);
          for (std::size_t i = 0; i < s.inputs; ++i) {
            const double activation =
                rounds_activations(backend(), type) ? rounded[i].value : double{row[i]};
            const double product =
                activation * double{stack.matrices.decoded[matrix_row * s.inputs + i]};
            exact += product;
            magnitude += std::fabs(product);
          }
          expect_near(y[pair * s.outputs + o], exact, sum_tolerance(s.inputs, magnitude),
                      std::string(traits(type).name) + " pair " + std::to_string(pair) +
                          " output " + std::to_string(o) + " of " + std::to_string(s.rows) + "x" +
                          std::to_string(s.used) + " of " + std::to_string(s.experts));
        }
      }
    }
    for (const std::uint32_t beside : {0u, s.outputs + 1, s.outputs + 2}) {
      EXPECT_EQ(values_of(backend(), wide_y.all().column_range(beside, 1)), Floats(pairs, 7.0f));
    }
  }
};

TEST_P(ExpertMatmulTest, MatchesHandComputedProducts) {
  TestWeight bytes(backend(), DType::f32, 4, 2, Floats{1, 0, 0, 1, 2, 0, 1, 1});
  const auto buffer = backend().upload_matrix(
      {.type = DType::f32, .rows = 4, .cols = 2, .bytes = bytes.bytes, .experts = 2});
  Weight weight = bytes.weight;
  weight.buffer = buffer.get();
  weight.experts = 2;
  const TestWeight bias(backend(), DType::f32, 2, 2, Floats{10, 20, 30, 40});
  const OwnedMatrix x = matrix_of(backend(), 2, 2, Floats{3, 5, -1, 4});
  const OwnedMatrix experts = matrix_of(backend(), 2, 2, Floats{1, 0, 0, 1});
  const OwnedMatrix y(backend(), 4, 2);
  backend().expert_matmul(
      {.x = x.all(), .weight = weight, .bias = bias.table, .experts = experts.all(), .y = y.all()});
  EXPECT_EQ(values_of(backend(), y.all()), (Floats{36, 48, 13, 25, 9, 24, 28, 43}));
}

TEST_P(ExpertMatmulTest, AgreesWithFloat64ForEveryType) {
  for (const DType type : kDTypes) {
    expect_right(
        type,
        {.experts = 5, .rows = 3, .used = 2, .inputs = 256, .outputs = 37, .x_per_pair = false});
    expect_right(
        type,
        {.experts = 3, .rows = 40, .used = 2, .inputs = 256, .outputs = 64, .x_per_pair = true});
  }
}

// More rows than experts and fewer; sizes without whole vectors or tiles.
TEST_P(ExpertMatmulTest, AgreesWithFloat64ForOneToEightExperts) {
  for (const DType type : {DType::f32, DType::f16, DType::q8_0, DType::q4_k}) {
    const std::uint32_t inputs = is_float(type) ? 67 : traits(type).block_count;
    for (std::uint32_t used = 1; used <= 8; ++used) {
      const bool x_per_pair = used % 2 == 0;
      expect_right(type, {8, 1, used, inputs, 33, x_per_pair});
      expect_right(type, {9, 7, used, inputs, 3, !x_per_pair});
      expect_right(type, {8, 30, used, inputs, 5, x_per_pair});
    }
  }
}

// Rows alone, together, in another order and with others that choose the same expert.
TEST_P(ExpertMatmulTest, RowsMatchSingleRows) {
  constexpr std::uint32_t kRows = 150;
  constexpr std::uint32_t kUsed = 3;
  constexpr std::uint32_t kExperts = 6;
  constexpr std::uint32_t kOutputs = 37;
  for (const DType type :
       {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_k, DType::mxfp4}) {
    const std::uint32_t inputs = traits(type).block_count > 32 ? 256 : 160;
    const TestStack stack(backend(), type, kExperts, kOutputs, inputs);
    const OwnedMatrix x =
        matrix_of(backend(), kRows, inputs, random_floats(1, std::size_t{kRows} * inputs));
    Floats choice = random_choice(2, kRows, kUsed, kExperts);
    // Most rows share their experts: more than a CPU takes at a time.
    for (std::size_t i = 0; i < 135 * kUsed; ++i) choice[i] = static_cast<float>(i % kUsed);
    const OwnedMatrix experts = matrix_of(backend(), kRows, kUsed, choice);
    const OwnedMatrix y(backend(), kRows * kUsed, kOutputs);
    const auto run = [&](std::uint32_t first, std::uint32_t count) {
      backend().expert_matmul({.x = x.all().row_range(first, count),
                               .weight = stack.weight,
                               .bias = {},
                               .experts = experts.all().row_range(first, count),
                               .y = y.all().row_range(first * kUsed, count * kUsed)});
    };
    for (std::uint32_t r = 0; r < kRows; ++r) run(r, 1);
    const Floats alone = values_of(backend(), y.all());
    const Floats zeros(alone.size(), 0.0f);
    for (const std::uint32_t width : {2u, 9u, kRows}) {
      backend().write(y.all(), zeros);
      for (std::uint32_t first = 0; first < kRows; first += width) {
        run(first, std::min(width, kRows - first));
      }
      EXPECT_TRUE(same_bytes(values_of(backend(), y.all()), alone))
          << traits(type).name << ", " << width << " rows";
    }
    // One row per pair gives the same products as one row for all of its pairs.
    Floats repeated;
    const Floats rows = values_of(backend(), x.all());
    for (std::size_t pair = 0; pair < std::size_t{kRows} * kUsed; ++pair) {
      const auto row = std::span(rows).subspan(pair / kUsed * inputs, inputs);
      repeated.insert(repeated.end(), row.begin(), row.end());
    }
    const OwnedMatrix wide = matrix_of(backend(), kRows * kUsed, inputs, repeated);
    backend().write(y.all(), zeros);
    backend().expert_matmul({.x = wide.all(),
                             .weight = stack.weight,
                             .bias = {},
                             .experts = experts.all(),
                             .y = y.all()});
    EXPECT_TRUE(same_bytes(values_of(backend(), y.all()), alone)) << traits(type).name;
  }
}

// If all rows choose the same expert, it is a matmul with that matrix.
TEST_P(ExpertMatmulTest, RowsWithOneExpertMatchItsMatmul) {
  constexpr std::uint32_t kRows = 20;
  constexpr std::uint32_t kOutputs = 40;
  for (const DType type :
       {DType::f32, DType::f16, DType::q8_0, DType::q4_k, DType::q3_k, DType::mxfp4}) {
    constexpr std::uint32_t kInputs = 256;
    const TestStack stack(backend(), type, 3, kOutputs, kInputs);
    const auto all = std::span(stack.matrices.bytes);
    const auto second = all.subspan(all.size() / 3, all.size() / 3);
    const TestWeight alone(backend(), type, kOutputs, kInputs, Bytes(second.begin(), second.end()));
    const OwnedMatrix x =
        matrix_of(backend(), kRows, kInputs, random_floats(1, std::size_t{kRows} * kInputs));
    const OwnedMatrix experts = matrix_of(backend(), kRows, 1, Floats(kRows, 1.0f));
    const OwnedMatrix y(backend(), kRows, kOutputs);
    const OwnedMatrix expected(backend(), kRows, kOutputs);
    backend().expert_matmul(
        {.x = x.all(), .weight = stack.weight, .bias = {}, .experts = experts.all(), .y = y.all()});
    backend().matmul({.x = x.all(), .weight = alone.weight, .bias = {}, .y = expected.all()});
    const Floats a = values_of(backend(), y.all());
    const Floats b = values_of(backend(), expected.all());
    // CUDA has a kernel of its own for experts of floats.
    if (backend().name() != "cuda" || !is_float(type)) {
      EXPECT_TRUE(same_bytes(a, b)) << traits(type).name;
    }
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4f);
  }
}

// --- mix ---

using MixTest = OpTest;

TEST_P(MixTest, AddsWeightedRows) {
  const OwnedMatrix x = matrix_of(backend(), 4, 2, Floats{1, 2, 3, 4, 5, 6, 7, 8});
  const OwnedMatrix weights = matrix_of(backend(), 2, 2, Floats{0.5f, 0.25f, 1, -1});
  const OwnedMatrix y = matrix_of(backend(), 2, 2, Floats{10, 20, 30, 40});
  backend().mix({.x = x.all(), .weights = weights.all(), .y = y.all()});
  EXPECT_EQ(values_of(backend(), y.all()), (Floats{11.25f, 22, 28, 38}));
}

TEST_P(MixTest, AgreesWithFloat64AndSingleRows) {
  constexpr std::uint32_t kRows = 21;
  for (const std::uint32_t cols : {1u, 31u, 128u, 1000u}) {
    for (std::uint32_t used = 1; used <= 8; ++used) {
      const Floats x = random_floats(cols, std::size_t{kRows} * used * cols);
      const Floats shares = random_floats(used, kRows * used);
      const Floats start = random_floats(3, std::size_t{kRows} * cols);
      const OwnedMatrix wide_x(backend(), kRows * used, cols + 4);
      const OwnedMatrix wide_weights(backend(), kRows, used + 2);
      const OwnedMatrix wide_y(backend(), kRows, cols + 1);
      const Matrix x_matrix = wide_x.all().column_range(0, cols);
      const Matrix weights = wide_weights.all().column_range(1, used);
      const Matrix y_matrix = wide_y.all().column_range(1, cols);
      backend().write(x_matrix, x);
      backend().write(weights, shares);
      backend().write(y_matrix, start);
      backend().mix({.x = x_matrix, .weights = weights, .y = y_matrix});
      const Floats together = values_of(backend(), y_matrix);
      for (std::size_t i = 0; i < together.size(); ++i) {
        const std::size_t r = i / cols;
        double exact = double{start[i]};
        double magnitude = std::fabs(exact);
        for (std::size_t u = 0; u < used; ++u) {
          const double term =
              double{shares[r * used + u]} * double{x[(r * used + u) * cols + i % cols]};
          exact += term;
          magnitude += std::fabs(term);
        }
        expect_near(together[i], exact, sum_tolerance(used, magnitude), "mixed");
      }
      backend().write(y_matrix, start);
      for (std::uint32_t r = 0; r < kRows; ++r) {
        backend().mix({.x = x_matrix.row_range(r * used, used),
                       .weights = weights.row_range(r, 1),
                       .y = y_matrix.row_range(r, 1)});
      }
      EXPECT_TRUE(same_bytes(values_of(backend(), y_matrix), together)) << cols << " " << used;
    }
  }
}

// --- CPU ---

// All operations of experts on random input, 30 rows.
Floats expert_results(Backend& backend) {
  constexpr std::uint32_t kRows = 30;
  constexpr std::uint32_t kExperts = 7;
  constexpr std::uint32_t kUsed = 3;
  constexpr std::uint32_t kInputs = 256;
  constexpr std::uint32_t kOutputs = 150;
  Floats results;
  const OwnedMatrix logits =
      matrix_of(backend, kRows, kExperts, random_floats(1, kRows * kExperts));
  const OwnedMatrix experts(backend, kRows, kUsed);
  const OwnedMatrix weights(backend, kRows, kUsed);
  const OwnedMatrix x = matrix_of(backend, kRows, kInputs, random_floats(2, kRows * kInputs));
  const OwnedMatrix wide(backend, kRows * kUsed, kOutputs);
  const OwnedMatrix y(backend, kRows, kOutputs);
  backend.route(
      {.logits = logits.all(), .used = kUsed, .experts = experts.all(), .weights = weights.all()});
  for (const DType type : kDTypes) {
    const TestStack stack(backend, type, kExperts, kOutputs, kInputs);
    backend.expert_matmul({.x = x.all(),
                           .weight = stack.weight,
                           .bias = {},
                           .experts = experts.all(),
                           .y = wide.all()});
    backend.mix({.x = wide.all(), .weights = weights.all(), .y = y.all()});
    const Floats values = values_of(backend, y.all());
    results.insert(results.end(), values.begin(), values.end());
  }
  return results;
}

TEST(CpuExpertsTest, ThreadsAndFusingSetsGiveSameBytes) {
  Floats first;
  for (const auto* kernels = cpu::available_kernels(); *kernels != nullptr; ++kernels) {
    const auto alone = make_cpu_backend_with(**kernels, {.threads = 1});
    const auto shared = make_cpu_backend_with(**kernels, {.threads = 3});
    const Floats results = expert_results(*alone);
    EXPECT_TRUE(same_bytes(expert_results(*shared), results)) << (*kernels)->name;
    if (std::string_view((*kernels)->name) == "baseline") continue;  // rounds each product
    if (first.empty()) first = results;
    EXPECT_TRUE(same_bytes(results, first)) << (*kernels)->name;
  }
}

TEST(CpuExpertsTest, MemoryStaysWithinPlan) {
  const auto planned = plan_cpu_backend({.threads = 2});
  const auto used = make_cpu_backend({.threads = 2});
  expert_results(*planned);
  expert_results(*used);
  EXPECT_LE(used->meter()->peak(), planned->meter()->peak());
  EXPECT_LE(planned->meter()->peak(), 2 * used->meter()->peak());
}

TEST(CpuExpertsTest, BoundedMemoryGivesSameBytes) {
  const auto all = make_cpu_backend({.threads = 2});
  const Floats results = expert_results(*all);
  // Less than one expert, and some experts of one stack.
  for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{200'000}}) {
    const auto bounded = make_cpu_backend({.threads = 2, .expert_bytes = bytes});
    EXPECT_TRUE(same_bytes(expert_results(*bounded), results)) << bytes;
  }
}

// Rows choose expert after expert, of two stacks in turns, so all are dropped and packed again.
TEST(CpuExpertsTest, DroppedExpertsArePackedAgain) {
  constexpr std::uint32_t kExperts = 6;
  constexpr std::uint32_t kCols = 256;
  const auto kept = make_cpu_backend({.threads = 1});
  const auto bounded = make_cpu_backend({.threads = 1, .expert_bytes = 3 * kCols * kCols});
  const auto results = [](Backend& backend) {
    Floats all;
    const TestStack first(backend, DType::q4_k, kExperts, kCols, kCols);
    const TestStack second(backend, DType::f16, kExperts, kCols, kCols);
    const OwnedMatrix x = matrix_of(backend, 1, kCols, random_floats(3, kCols));
    const OwnedMatrix y(backend, 2, kCols);
    for (std::uint32_t i = 0; i < 4 * kExperts; ++i) {
      const OwnedMatrix choice = matrix_of(
          backend, 1, 2,
          Floats{static_cast<float>(i % kExperts), static_cast<float>((2 * i + 1) % kExperts)});
      for (const TestStack* stack : {&first, &second}) {
        backend.expert_matmul({.x = x.all(),
                               .weight = stack->weight,
                               .bias = {},
                               .experts = choice.all(),
                               .y = y.all()});
        const Floats values = values_of(backend, y.all());
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  };
  EXPECT_TRUE(same_bytes(results(*bounded), results(*kept)));
}

TEST(CpuExpertsTest, BoundLimitsPlannedMemory) {
  const auto bytes_of = [](Backend& backend) {
    const TestStack first(backend, DType::f16, 8, 256, 256);
    const TestStack second(backend, DType::f16, 8, 256, 256);
    return backend.meter()->held(MemoryMeter::Use::weights);
  };
  constexpr std::uint64_t kStackBytes = 8 * 256 * 256 * 2;
  const CpuBackendOptions bounded{.threads = 1, .expert_bytes = kStackBytes * 3 / 2};
  const auto unbounded = make_cpu_backend({.threads = 1});
  const auto used = make_cpu_backend(bounded);
  const auto planned = plan_cpu_backend(bounded);
  const std::uint64_t used_bytes = bytes_of(*used);
  EXPECT_EQ(bytes_of(*unbounded) - used_bytes, kStackBytes / 2);
  EXPECT_EQ(bytes_of(*planned), used_bytes);
}

EDGEDRAFT_FOR_ALL_BACKENDS(RouteTest);
EDGEDRAFT_FOR_ALL_BACKENDS(ExpertMatmulTest);
EDGEDRAFT_FOR_VULKAN_FEATURES(ExpertMatmulTest);
EDGEDRAFT_FOR_ALL_BACKENDS(MixTest);

}  // namespace
}  // namespace edgedraft::testing
