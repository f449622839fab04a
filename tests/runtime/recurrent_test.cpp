#include <zlib.h>

#include <string_view>

#include "tests/runtime/recurrent_operations.h"
#include "tests/support/skip.h"

namespace edgedraft::testing {
namespace {

class RecurrentTest : public OpTest {
 protected:
  // State of a sequence after its tokens came one by one.
  static Floats state_after(const RecurrentOperation& operation, const Rows& tokens) {
    const SequenceMemory memory = operation.new_memory();
    operation.run_one_by_one(memory, tokens);
    return memory.state_values();
  }
};

TEST_P(RecurrentTest, ChainGivesBytesOfSingleRows) {
  for (const auto& operation : operations(backend())) {
    SCOPED_TRACE(operation->name());
    const Rows tokens = counted(0, 20);
    const SequenceMemory one_by_one = operation->new_memory();
    const Floats results = operation->run_one_by_one(one_by_one, tokens);

    const SequenceMemory whole = operation->new_memory();
    EXPECT_TRUE(same_bytes(operation->run(CallPart{whole, tokens, {}, 20}), results));
    EXPECT_TRUE(same_bytes(whole.state_values(), one_by_one.state_values()));

    const SequenceMemory chunks = operation->new_memory();
    operation->run(CallPart{chunks, counted(0, 2), {}, 2});
    operation->run(CallPart{chunks, counted(2, 1), {}, 1});
    operation->run(CallPart{chunks, counted(3, 17), {}, 17});
    EXPECT_TRUE(same_bytes(chunks.state_values(), one_by_one.state_values()));
  }
}

TEST_P(RecurrentTest, TreeRowsGiveBytesOfTheirPathsAndLeaveStateUnchanged) {
  constexpr std::uint32_t kRows = 24;
  const Rows before = counted(40, 5);
  for (const auto& operation : operations(backend())) {
    for (const std::uint32_t settled : {0u, 1u, 4u}) {
      SCOPED_TRACE(operation->name() + ", settled " + std::to_string(settled));
      const std::uint32_t drafted = kRows - settled;
      const Rows parents = random_parents(settled + 1, drafted);
      const SequenceMemory tree = operation->new_memory();
      operation->run(CallPart{tree, before, {}, 5});
      const Floats results = operation->run(CallPart{tree, counted(0, kRows), parents, settled});

      const Rows folded = counted(0, settled);
      EXPECT_TRUE(same_bytes(tree.state_values(), state_after(*operation, joined(before, folded))));
      for (const std::uint32_t row : {0u, 7u, 15u, drafted - 1}) {
        const SequenceMemory alone = operation->new_memory();
        operation->run_one_by_one(alone, before);
        const Rows path = joined(folded, shifted(path_to(parents, row), settled));
        const Floats expected = operation->run_one_by_one(alone, path);
        for (std::size_t i = 0; i < path.size(); ++i) {
          EXPECT_TRUE(
              same_bytes(operation->row_of(results, path[i]), operation->row_of(expected, i)))
              << "row " << path[i];
        }
      }
    }
  }
}

TEST_P(RecurrentTest, TreeGrownOverCallsGivesBytesOfOneCall) {
  constexpr std::uint32_t kRows = 24;
  const Rows parents = random_parents(6, kRows);
  for (const auto& operation : operations(backend())) {
    SCOPED_TRACE(operation->name());
    const SequenceMemory whole = operation->new_memory();
    const Floats expected = operation->run(CallPart{whole, counted(0, kRows + 2), parents, 2});

    const SequenceMemory grown = operation->new_memory(kRows);
    Floats results;
    std::uint32_t first = 0;
    for (const std::uint32_t end : {7u, 8u, kRows}) {
      const std::uint32_t settled = first == 0 ? 2 : 0;
      const Rows tokens = counted(first + 2 - settled, end - first + settled);
      const Rows known(parents.begin(), parents.begin() + end);
      const Floats y = operation->run(CallPart{grown, tokens, known, settled, {}, first});
      results.insert(results.end(), y.begin(), y.end());
      first = end;
    }
    EXPECT_TRUE(same_bytes(results, expected));
    EXPECT_TRUE(same_bytes(grown.state_values(), whole.state_values()));
    EXPECT_TRUE(same_bytes(grown.kept_values(0, kRows), whole.kept_values(0, kRows)));
  }
}

TEST_P(RecurrentTest, PathGrownOverCallsGivesBytesOfSingleRows) {
  constexpr std::uint32_t kRows = 12;
  const Rows parents = {kNoParent, 0, kNoParent, 1, 0, 3, 4, 5, 2, 7, 9, 10};
  const Rows path = path_to(parents, kRows - 1);
  for (const auto& operation : operations(backend())) {
    SCOPED_TRACE(operation->name());
    const SequenceMemory alone = operation->new_memory();
    const Floats expected = operation->run_one_by_one(alone, path);

    const SequenceMemory grown = operation->new_memory(kRows);
    Floats results;
    for (std::uint32_t row = 0; row < kRows; row += 3) {
      const Rows known(parents.begin(), parents.begin() + row + 3);
      const Floats y = operation->run(CallPart{grown, counted(row, 3), known, 0, {}, row});
      results.insert(results.end(), y.begin(), y.end());
    }
    for (std::size_t i = 0; i < path.size(); ++i) {
      EXPECT_TRUE(same_bytes(operation->row_of(results, path[i]), operation->row_of(expected, i)))
          << "row " << path[i];
    }
    operation->run(CallPart{grown, {}, {}, 0, path});
    EXPECT_TRUE(same_bytes(grown.state_values(), alone.state_values()));
  }
}

TEST_P(RecurrentTest, PendingPathGivesBytesOfSingleRows) {
  constexpr std::uint32_t kRows = 24;
  for (const auto& operation : operations(backend())) {
    for (const std::uint32_t settled : {0u, 1u}) {
      const Rows parents = random_parents(settled + 8, kRows - settled);
      for (const std::uint32_t row : {0u, 11u, kRows - settled - 1}) {
        SCOPED_TRACE(operation->name() + ", settled " + std::to_string(settled) + ", row " +
                     std::to_string(row));
        const SequenceMemory memory = operation->new_memory();
        operation->run(CallPart{memory, counted(0, kRows), parents, settled});
        // New rows overwrite the kept ones that are folded.
        const Rows accepted = path_to(parents, row);
        const Floats results =
            operation->run(CallPart{memory, counted(30, 12), chain(10), 2, accepted});

        Rows tokens = joined(counted(0, settled), shifted(accepted, settled));
        tokens = joined(tokens, counted(30, 2));
        EXPECT_TRUE(same_bytes(memory.state_values(), state_after(*operation, tokens)));
        tokens = joined(tokens, counted(32, 10));
        const SequenceMemory alone = operation->new_memory();
        const Floats expected = operation->run_one_by_one(alone, tokens);
        EXPECT_TRUE(same_bytes(operation->row_of(results, 11),
                               operation->row_of(expected, tokens.size() - 1)));

        // Without new rows.
        operation->run(CallPart{memory, {}, {}, 0, counted(0, 10)});
        EXPECT_TRUE(same_bytes(memory.state_values(), alone.state_values()));
      }
    }
  }
}

TEST_P(RecurrentTest, SequencesGiveSameBytesTogetherAndAlone) {
  for (const auto& operation : operations(backend())) {
    SCOPED_TRACE(operation->name());
    std::vector<SequenceMemory> together;
    std::vector<SequenceMemory> alone;
    for (int i = 0; i < 4; ++i) {
      together.push_back(operation->new_memory());
      alone.push_back(operation->new_memory());
    }
    const auto parts_of = [](const std::vector<SequenceMemory>& memory, int call) {
      const Rows grown = {kNoParent, kNoParent, kNoParent, 0, 3, 1, 5, 2, kNoParent};
      if (call == 0) {
        return std::vector<CallPart>{{memory[0], counted(0, 9), random_parents(1, 8), 1},
                                     {memory[1], counted(9, 30), {}, 30},
                                     {memory[2], counted(2, 3), Rows(3, kNoParent)}};
      }
      if (call == 1) {
        return std::vector<CallPart>{{memory[2], counted(5, 6), grown, 0, {}, 3},
                                     {memory[3], counted(50, 1), {}, 1},
                                     {memory[0], {}, {}, 0, {1}},
                                     {memory[1], counted(20, 5), random_parents(3, 5)}};
      }
      return std::vector<CallPart>{{memory[1], counted(7, 2), {}, 2},
                                   {memory[2], counted(11, 6), random_parents(2, 4), 2, {1, 5, 6}}};
    };
    for (const int call : {0, 1, 2}) {
      const Floats results = operation->run(parts_of(together, call));
      Floats expected;
      for (const CallPart& part : parts_of(alone, call)) {
        const Floats y = operation->run(part);
        expected.insert(expected.end(), y.begin(), y.end());
      }
      EXPECT_TRUE(same_bytes(results, expected)) << call;
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_TRUE(same_bytes(together[i].state_values(), alone[i].state_values())) << i;
      }
    }
  }
}

TEST_P(RecurrentTest, AgreesWithReference) {
  const auto reference = make_reference_backend();
  auto tested = operations(backend());
  auto expected = operations(*reference);
  tested.push_back(std::make_unique<DeltaRule>(backend(), 2, 2, 256));
  expected.push_back(std::make_unique<DeltaRule>(*reference, 2, 2, 256));
  for (std::size_t i = 0; i < tested.size(); ++i) {
    SCOPED_TRACE(tested[i]->name());
    const SequenceMemory memory = tested[i]->new_memory();
    const SequenceMemory exact = expected[i]->new_memory();
    const auto compare = [](const Floats& a, const Floats& b, const char* where) {
      ASSERT_EQ(a.size(), b.size());
      // Results and states are below 4.
      for (std::size_t n = 0; n < a.size(); ++n) ASSERT_NEAR(a[n], b[n], 4e-6) << where << " " << n;
    };
    const auto run = [&](const Rows& tokens, const Rows& parents, std::uint32_t settled,
                         const Rows& pending, std::uint32_t first = 0) {
      compare(tested[i]->run(CallPart{memory, tokens, parents, settled, pending, first}),
              expected[i]->run(CallPart{exact, tokens, parents, settled, pending, first}),
              "result");
      compare(memory.state_values(), exact.state_values(), "state");
      const auto kept = static_cast<std::uint32_t>(parents.size());
      compare(memory.kept_values(0, kept), exact.kept_values(0, kept), "kept");
    };
    run(counted(0, 30), {}, 30, {});
    const Rows parents = random_parents(4, 11);
    run(counted(30, 6), {parents.begin(), parents.begin() + 5}, 1, {});
    run(counted(36, 6), parents, 0, {}, 5);
    run(counted(42, 9), random_parents(5, 9), 0, path_to(parents, 10));
    run(counted(51, 1), {}, 1, {0});
  }
}

// Eleven values between -1.25 and 1.25 in a fixed order.
Floats pattern(std::size_t seed, std::size_t count) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = (static_cast<float>((i * 7 + seed * 3) % 11) - 5.0f) / 4.0f;
  }
  return values;
}

void expect_all_near(const Floats& values, const std::vector<double>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], 3e-7 * std::max(1.0, std::fabs(expected[i]))) << i;
  }
}

// Expected numbers come from NumPy in float64.
TEST_P(RecurrentTest, DeltaRuleMatchesNumpy) {
  constexpr std::uint32_t kRows = 3;
  const OwnedMatrix qkv = matrix_of(backend(), kRows, 16, pattern(1, 48));
  const OwnedMatrix alpha = matrix_of(backend(), kRows, 4, pattern(2, 12));
  const OwnedMatrix beta = matrix_of(backend(), kRows, 4, pattern(3, 12));
  const TestWeight decay(backend(), DType::f32, 1, 4, Floats{-0.5f, -1.0f, -0.25f, -2.0f});
  const TestWeight time_bias(backend(), DType::f32, 1, 4, Floats{0.25f, -0.5f, 1.0f, 0.0f});
  const SequenceMemory memory(backend(), 8, 2, 1, 20);
  const OwnedMatrix y(backend(), kRows, 8);
  const RecurrentRows sequence{.rows = kRows,
                               .state = memory.state,
                               .kept = memory.kept,
                               .pending = {},
                               .settled = kRows,
                               .first = 0,
                               .parents = {}};
  backend().delta_rule({.qkv = qkv.all(),
                        .alpha = alpha.all(),
                        .beta = beta.all(),
                        .decay = decay.table,
                        .time_bias = time_bias.table,
                        .key_heads = 2,
                        .value_heads = 4,
                        .dim = 2,
                        .epsilon = 0.01f,
                        .y = y.all(),
                        .sequences = {&sequence, 1}});
  expect_all_near(
      values_of(backend(), y.all()),
      {0.0476269464, 0.238134732,     -0.143736211,  0.143736211,    -0.0876048721, -0.0175209744,
       0.292867717,  -0.39049029,     -0.0126904299, 0.164734176,    -0.163896242,  0.0632592701,
       0.124396513,  -0.129218036,    0.202237965,   0.000479597904, -0.422659123,  0.126963411,
       0.0260674877, -0.000507019715, 0.281849129,   -0.391897676,   0.00585065386, 0.0593875797});
  expect_all_near(memory.state_values(),
                  {-0.424608584, -1.89266254e-05, 0.429120995, -0.256472446, -0.118505518,
                   0.0582066861, 0.781080417, -0.294700834, 0.422174571, -0.425320393, -0.147132762,
                   0.36627411, 0.0467424005, -0.0198836803, -0.191392722, 0.528984});
}

TEST_P(RecurrentTest, ConvolutionMatchesNumpy) {
  constexpr std::uint32_t kRows = 4;
  const OwnedMatrix x = matrix_of(backend(), kRows, 2, pattern(4, 8));
  const TestWeight weight(backend(), DType::f32, 2, 3, pattern(5, 6));
  const OwnedMatrix y(backend(), kRows, 2);
  const auto convolve = [&](Activation activation) {
    const SequenceMemory memory(backend(), 2, 2, 1, 2);
    const RecurrentRows sequence{.rows = kRows,
                                 .state = memory.state,
                                 .kept = memory.kept,
                                 .pending = {},
                                 .settled = kRows,
                                 .first = 0,
                                 .parents = {}};
    backend().convolve({.x = x.all(),
                        .weight = weight.table,
                        .activation = activation,
                        .y = y.all(),
                        .sequences = {&sequence, 1}});
    EXPECT_EQ(memory.state_values(), (Floats{0.5f, -0.5f, 1.25f, 0.25f}));
    return values_of(backend(), y.all());
  };
  EXPECT_EQ(convolve(Activation::identity),
            (Floats{-0.5f, 0.1875f, 1.125f, 0.625f, 0.8125f, -2.0625f, 0.0625f, 0.0625f}));
  expect_all_near(convolve(Activation::silu),
                  {-0.188770334, 0.102513403, 0.84927936, 0.40709679, 0.562771611, -0.232640525,
                   0.0322262447, 0.0322262447});
}

// Decays next to 1 and next to 0, and steps of 0 and 1.
TEST_P(RecurrentTest, ExtremeGatesKeepOrReplaceState) {
  constexpr std::uint32_t kDim = 4;
  const TestWeight decay(backend(), DType::f32, 1, 1, Floats{-1.0f});
  const TestWeight time_bias(backend(), DType::f32, 1, 1, Floats{0.0f});
  const OwnedMatrix qkv =
      matrix_of(backend(), 1, 3 * kDim, Floats{1, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3, 4});
  const OwnedMatrix y(backend(), 1, kDim);
  const auto result = [&](float alpha, float beta) {
    const SequenceMemory memory(backend(), kDim, kDim, 1, 2 * kDim + 2);
    backend().write(memory.state, Floats(kDim * kDim, 8.0f));
    const OwnedMatrix alphas = matrix_of(backend(), 1, 1, Floats{alpha});
    const OwnedMatrix betas = matrix_of(backend(), 1, 1, Floats{beta});
    const RecurrentRows sequence{.rows = 1,
                                 .state = memory.state,
                                 .kept = memory.kept,
                                 .pending = {},
                                 .settled = 1,
                                 .first = 0,
                                 .parents = {}};
    backend().delta_rule({.qkv = qkv.all(),
                          .alpha = alphas.all(),
                          .beta = betas.all(),
                          .decay = decay.table,
                          .time_bias = time_bias.table,
                          .key_heads = 1,
                          .value_heads = 1,
                          .dim = kDim,
                          .epsilon = 0.0f,
                          .y = y.all(),
                          .sequences = {&sequence, 1}});
    return values_of(backend(), y.all());
  };
  expect_all_near(result(-200.0f, -200.0f), {4, 4, 4, 4});
  expect_all_near(result(-200.0f, 200.0f), {0.5, 1, 1.5, 2});
  expect_all_near(result(200.0f, -200.0f), {0, 0, 0, 0});
  // A step of float32's softplus near zero, where 1 + e^x would lose its digits.
  EXPECT_NEAR(result(-9.0f, -200.0f)[0], 4.0 * std::exp(-std::log1p(std::exp(-9.0))), 3e-7);
}

TEST(RecurrentDeathTest, RefusesRowsThatDoNotFitTheTree) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto backend = make_reference_backend();
  const Convolution operation(*backend, 5, 3, Activation::identity);
  const SequenceMemory memory = operation.new_memory(3);
  const Rows root = {kNoParent};
  operation.run(CallPart{memory, counted(0, 3), chain(3)});
  EXPECT_DEATH(operation.run(CallPart{memory, counted(0, 4), chain(4)}), "kept");
  EXPECT_DEATH(operation.run(CallPart{memory, counted(0, 1), chain(4), 0, {}, 3}), "kept");
  EXPECT_DEATH(operation.run(CallPart{memory, counted(0, 1), root, 0, {3}}), "kept");
  EXPECT_DEATH(operation.run(CallPart{memory, counted(0, 1), chain(3), 0, {0}, 2}), "pending");
  EXPECT_DEATH(operation.run(CallPart{memory, counted(0, 2), chain(3), 1, {}, 2}), "settled");
  EXPECT_DEATH(operation.run(CallPart{memory, counted(0, 1), root, 0, {}, 2}), "parents");
  EXPECT_DEATH(operation.run(CallPart{memory, counted(0, 1), {0}}), "parents");
}

// Results and states of every operation after a chain, a tree and a pending path.
Floats results_of(const cpu::Kernels& kernels, std::uint32_t threads) {
  const auto backend = make_cpu_backend_with(kernels, {.threads = threads});
  Floats all;
  const auto keep = [&](const Floats& values) {
    all.insert(all.end(), values.begin(), values.end());
  };
  for (const auto& operation : operations(*backend)) {
    const SequenceMemory memory = operation->new_memory();
    keep(operation->run(CallPart{memory, counted(0, 40), {}, 40}));
    keep(operation->run(CallPart{memory, counted(40, 9), random_parents(1, 8), 1}));
    keep(operation->run(CallPart{memory, counted(50, 3), chain(1), 2, {0}}));
    keep(memory.state_values());
  }
  return all;
}

// As InstructionSetTest for other operations; the CRC was recorded with AVX2.
TEST(RecurrentBytesTest, FusingSetsAndThreadsMatchRecordedBytes) {
  bool fuses = false;
  for (const auto* kernels = cpu::available_kernels(); *kernels != nullptr; ++kernels) {
    if (std::string_view((*kernels)->name) == "baseline") continue;
    fuses = true;
    for (const std::uint32_t threads : {1u, 3u}) {
      const Floats results = results_of(**kernels, threads);
      const auto* bytes = reinterpret_cast<const Bytef*>(results.data());
      EXPECT_EQ(crc32(0, bytes, static_cast<uInt>(results.size() * sizeof(float))), 2690886217u)
          << (*kernels)->name << " on " << threads;
    }
  }
  if (!fuses) EDGEDRAFT_SKIP_WITHOUT("avx2", "this CPU has the baseline only");
}

EDGEDRAFT_FOR_ALL_BACKENDS(RecurrentTest);
EDGEDRAFT_FOR_VULKAN_FEATURES(RecurrentTest);

}  // namespace
}  // namespace edgedraft::testing
