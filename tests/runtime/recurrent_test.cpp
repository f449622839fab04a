#include <zlib.h>

#include <string_view>

#include "tests/runtime/op_test.h"
#include "tests/support/skip.h"

namespace edgedraft::testing {
namespace {

using Rows = std::vector<std::uint32_t>;

// State and kept rows of one sequence, with gaps between rows.
class SequenceMemory {
 public:
  SequenceMemory(Backend& backend, std::uint32_t rows, std::uint32_t cols, std::uint32_t kept_cols)
      : backend_(backend),
        state_memory_(backend, rows, cols + 3),
        kept_memory_(backend, kMaskRowsMax, kept_cols + 5),
        state(state_memory_.all().column_range(1, cols)),
        kept(kept_memory_.all().column_range(2, kept_cols)) {}

  Floats state_values() const { return values_of(backend_, state); }
  Floats kept_values(std::uint32_t first, std::uint32_t count) const {
    return values_of(backend_, kept.row_range(first, count));
  }

 private:
  Backend& backend_;
  OwnedMatrix state_memory_;
  OwnedMatrix kept_memory_;

 public:
  Matrix state;
  Matrix kept;
};

// One sequence's share of a call. Tokens number the rows of an operation's inputs.
struct Part {
  const SequenceMemory& memory;
  Rows tokens;
  Rows parents;
  std::uint32_t settled = 0;
  Rows pending = {};
};

Rows chain(std::uint32_t count) {
  Rows parents(count);
  for (std::uint32_t r = 0; r < count; ++r) parents[r] = r - 1;  // kNoParent for row 0
  return parents;
}

Rows counted(std::uint32_t first, std::uint32_t count) {
  Rows rows(count);
  for (std::uint32_t i = 0; i < count; ++i) rows[i] = first + i;
  return rows;
}

// Random parents; rows before `settled` form a chain, from which all others descend.
Rows random_parents(std::uint64_t seed, std::uint32_t rows, std::uint32_t settled) {
  Random random(seed);
  Rows parents = chain(rows);
  for (std::uint32_t r = settled; r < rows; ++r) {
    if (random.below(3) == 0) continue;
    const std::uint32_t first = settled == 0 ? 0 : settled - 1;
    const auto choice = static_cast<std::uint32_t>(random.below(r - first + (settled == 0)));
    parents[r] = choice == r - first ? kNoParent : first + choice;
  }
  return parents;
}

// A chain of which every second row is a leaf: from each of the others, two continue.
Rows comb(std::uint32_t rows, std::uint32_t settled) {
  Rows parents = chain(rows);
  for (std::uint32_t r = settled + 2; r < rows; ++r) {
    if ((r - settled) % 2 == 0) parents[r] = r - 2;
  }
  return parents;
}

// Rows from `first` on the path to row r.
Rows path_to(const Rows& parents, std::uint32_t r, std::uint32_t first) {
  Rows path;
  for (; r != kNoParent && r >= first; r = parents[r]) path.push_back(r);
  std::ranges::reverse(path);
  return path;
}

// A recurrent operation with random inputs for kTokens tokens.
class RecurrentOperation {
 public:
  static constexpr std::uint32_t kTokens = 64;

  explicit RecurrentOperation(Backend& backend) : backend_(backend) {}
  virtual ~RecurrentOperation() = default;

  virtual std::string name() const = 0;
  virtual SequenceMemory new_memory() const = 0;
  virtual std::uint32_t cols() const = 0;

  // Results of all rows, part by part.
  Floats run(std::span<const Part> parts) const {
    Rows tokens;
    std::vector<RecurrentRows> sequences;
    for (const Part& part : parts) {
      tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
      sequences.push_back({.rows = static_cast<std::uint32_t>(part.tokens.size()),
                           .state = part.memory.state,
                           .kept = part.memory.kept,
                           .pending = part.pending,
                           .parents = part.parents,
                           .settled = part.settled});
    }
    const auto rows = static_cast<std::uint32_t>(tokens.size());
    const OwnedMatrix y(backend_, rows + 1, cols() + 3);
    const Matrix results = y.rows(rows).column_range(1, cols());
    enqueue(tokens, sequences, results);
    return values_of(backend_, results);
  }
  Floats run(const Part& part) const { return run({&part, 1}); }

  // Results of the tokens, one call each.
  Floats run_one_by_one(const SequenceMemory& memory, const Rows& tokens) const {
    Floats results;
    for (const std::uint32_t token : tokens) {
      const Floats y = run(Part{memory, {token}, {kNoParent}, 1});
      results.insert(results.end(), y.begin(), y.end());
    }
    return results;
  }

  Floats row_of(const Floats& results, std::size_t row) const {
    const auto first = results.begin() + static_cast<std::ptrdiff_t>(row * cols());
    return {first, first + cols()};
  }

 protected:
  virtual void enqueue(const Rows& tokens, std::span<const RecurrentRows> sequences,
                       const Matrix& y) const = 0;

  // The tokens' rows of `inputs`, with a gap after each.
  OwnedMatrix gathered(const Floats& inputs, const Rows& tokens) const {
    const std::size_t cols = inputs.size() / kTokens;
    Floats rows;
    for (const std::uint32_t token : tokens) {
      const auto from = inputs.begin() + static_cast<std::ptrdiff_t>(token * cols);
      rows.insert(rows.end(), from, from + static_cast<std::ptrdiff_t>(cols));
      rows.push_back(7.0f);
    }
    return matrix_of(backend_, static_cast<std::uint32_t>(tokens.size()),
                     static_cast<std::uint32_t>(cols + 1), rows);
  }
  static Matrix without_gap(const OwnedMatrix& matrix) {
    return matrix.all().column_range(0, matrix.all().cols - 1);
  }

  Backend& backend_;
};

class Convolution final : public RecurrentOperation {
 public:
  Convolution(Backend& backend, std::uint32_t cols, std::uint32_t taps, Activation activation)
      : RecurrentOperation(backend),
        cols_(cols),
        taps_(taps),
        activation_(activation),
        weight_(backend, DType::f32, cols, taps, random_floats(1, cols * taps)),
        x_(random_floats(2, kTokens * cols)) {}

  std::string name() const override {
    return "convolution of " + std::to_string(cols_) + " columns";
  }
  SequenceMemory new_memory() const override { return {backend_, taps_ - 1, cols_, cols_}; }
  std::uint32_t cols() const override { return cols_; }

 private:
  void enqueue(const Rows& tokens, std::span<const RecurrentRows> sequences,
               const Matrix& y) const override {
    const OwnedMatrix x = gathered(x_, tokens);
    backend_.convolve({.x = without_gap(x),
                       .weight = weight_.table,
                       .activation = activation_,
                       .y = y,
                       .sequences = sequences});
  }

  std::uint32_t cols_;
  std::uint32_t taps_;
  Activation activation_;
  TestWeight weight_;
  Floats x_;
};

class DeltaRule final : public RecurrentOperation {
 public:
  DeltaRule(Backend& backend, std::uint32_t key_heads, std::uint32_t value_heads, std::uint32_t dim)
      : RecurrentOperation(backend),
        key_heads_(key_heads),
        value_heads_(value_heads),
        dim_(dim),
        decay_(backend, DType::f32, 1, value_heads, negative(random_floats(1, value_heads))),
        time_bias_(backend, DType::f32, 1, value_heads, random_floats(2, value_heads)),
        qkv_(random_floats(3, kTokens * (2 * key_heads + value_heads) * dim)),
        alpha_(random_floats(4, kTokens * value_heads)),
        beta_(random_floats(5, kTokens * value_heads)) {}

  std::string name() const override {
    return "delta rule of " + std::to_string(dim_) + " dimensions";
  }
  SequenceMemory new_memory() const override {
    return {backend_, value_heads_ * dim_, dim_,
            (key_heads_ + value_heads_) * dim_ + 2 * value_heads_};
  }
  std::uint32_t cols() const override { return value_heads_ * dim_; }

 private:
  static Floats negative(Floats values) {
    for (float& value : values) value -= 1.0f;
    return values;
  }

  void enqueue(const Rows& tokens, std::span<const RecurrentRows> sequences,
               const Matrix& y) const override {
    const OwnedMatrix qkv = gathered(qkv_, tokens);
    const OwnedMatrix alpha = gathered(alpha_, tokens);
    const OwnedMatrix beta = gathered(beta_, tokens);
    backend_.delta_rule({.qkv = without_gap(qkv),
                         .alpha = without_gap(alpha),
                         .beta = without_gap(beta),
                         .decay = decay_.table,
                         .time_bias = time_bias_.table,
                         .key_heads = key_heads_,
                         .value_heads = value_heads_,
                         .dim = dim_,
                         .epsilon = 1e-6f,
                         .y = y,
                         .sequences = sequences});
  }

  std::uint32_t key_heads_;
  std::uint32_t value_heads_;
  std::uint32_t dim_;
  TestWeight decay_;
  TestWeight time_bias_;
  Floats qkv_;
  Floats alpha_;
  Floats beta_;
};

std::vector<std::unique_ptr<RecurrentOperation>> operations(Backend& backend) {
  std::vector<std::unique_ptr<RecurrentOperation>> all;
  all.push_back(std::make_unique<Convolution>(backend, 300, 4, Activation::silu));
  all.push_back(std::make_unique<Convolution>(backend, 5, 3, Activation::identity));
  all.push_back(std::make_unique<DeltaRule>(backend, 2, 4, 16));
  all.push_back(std::make_unique<DeltaRule>(backend, 1, 1, 21));
  all.push_back(std::make_unique<DeltaRule>(backend, 1, 2, 128));
  return all;
}

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
    EXPECT_TRUE(same_bytes(operation->run(Part{whole, tokens, chain(20), 20}), results));
    EXPECT_TRUE(same_bytes(whole.state_values(), one_by_one.state_values()));

    const SequenceMemory chunks = operation->new_memory();
    operation->run(Part{chunks, counted(0, 2), chain(2), 2});
    operation->run(Part{chunks, counted(2, 1), chain(1), 1});
    operation->run(Part{chunks, counted(3, 17), chain(17), 17});
    EXPECT_TRUE(same_bytes(chunks.state_values(), one_by_one.state_values()));
  }
}

TEST_P(RecurrentTest, TreeRowsGiveBytesOfTheirPathsAndLeaveStateUnchanged) {
  constexpr std::uint32_t kRows = 24;
  const Rows before = counted(40, 5);
  for (const auto& operation : operations(backend())) {
    for (const std::uint32_t settled : {0u, 1u, 4u}) {
      for (const Rows& parents :
           {random_parents(settled + 1, kRows, settled), comb(kRows, settled)}) {
        SCOPED_TRACE(operation->name() + ", settled " + std::to_string(settled));
        const SequenceMemory tree = operation->new_memory();
        operation->run(Part{tree, before, chain(5), 5});
        const Floats results = operation->run(Part{tree, counted(0, kRows), parents, settled});

        Rows all = before;
        const Rows folded = counted(0, settled);
        all.insert(all.end(), folded.begin(), folded.end());
        EXPECT_TRUE(same_bytes(tree.state_values(), state_after(*operation, all)));
        for (const std::uint32_t row : {0u, 7u, 15u, kRows - 1}) {
          const SequenceMemory alone = operation->new_memory();
          operation->run_one_by_one(alone, before);
          const Rows path = path_to(parents, row, 0);
          const Floats expected = operation->run_one_by_one(alone, path);
          EXPECT_TRUE(same_bytes(operation->row_of(results, row),
                                 operation->row_of(expected, path.size() - 1)))
              << "row " << row;
        }
      }
    }
  }
}

TEST_P(RecurrentTest, PendingPathGivesBytesOfSingleRows) {
  constexpr std::uint32_t kRows = 24;
  for (const auto& operation : operations(backend())) {
    for (const std::uint32_t settled : {0u, 1u}) {
      const Rows parents = random_parents(settled + 8, kRows, settled);
      for (const std::uint32_t row : {0u, 11u, kRows - 1}) {
        SCOPED_TRACE(operation->name() + ", settled " + std::to_string(settled) + ", row " +
                     std::to_string(row));
        const SequenceMemory memory = operation->new_memory();
        operation->run(Part{memory, counted(0, kRows), parents, settled});
        // New rows overwrite the kept ones that are folded.
        const Rows accepted = path_to(parents, row, settled);
        const Floats results =
            operation->run(Part{memory, counted(30, 12), chain(12), 2, accepted});

        Rows tokens = path_to(parents, row, 0);
        tokens.push_back(30);
        tokens.push_back(31);
        EXPECT_TRUE(same_bytes(memory.state_values(), state_after(*operation, tokens)));
        const Rows drafted = counted(32, 10);
        tokens.insert(tokens.end(), drafted.begin(), drafted.end());
        const SequenceMemory alone = operation->new_memory();
        const Floats expected = operation->run_one_by_one(alone, tokens);
        EXPECT_TRUE(same_bytes(operation->row_of(results, 11),
                               operation->row_of(expected, tokens.size() - 1)));

        // Without new rows.
        operation->run(Part{memory, {}, {}, 0, counted(2, 10)});
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
      if (call == 0) {
        return std::vector<Part>{{memory[0], counted(0, 9), random_parents(1, 9, 1), 1},
                                 {memory[1], counted(9, 30), chain(30), 30},
                                 {memory[2], counted(2, 3), {kNoParent, kNoParent, kNoParent}}};
      }
      return std::vector<Part>{{memory[2], counted(5, 6), random_parents(2, 6, 2), 2, {1}},
                               {memory[3], counted(50, 1), {kNoParent}, 1},
                               {memory[0], {}, {}, 0, {1}},
                               {memory[1], counted(20, 5), random_parents(3, 5, 0)}};
    };
    for (const int call : {0, 1}) {
      const Floats results = operation->run(parts_of(together, call));
      Floats expected;
      for (const Part& part : parts_of(alone, call)) {
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
                         const Rows& pending) {
      compare(tested[i]->run(Part{memory, tokens, parents, settled, pending}),
              expected[i]->run(Part{exact, tokens, parents, settled, pending}), "result");
      compare(memory.state_values(), exact.state_values(), "state");
      const auto drafted = static_cast<std::uint32_t>(tokens.size()) - settled;
      compare(memory.kept_values(settled, drafted), exact.kept_values(settled, drafted), "kept");
    };
    run(counted(0, 30), chain(30), 30, {});
    run(counted(30, 12), random_parents(4, 12, 1), 1, {});
    run(counted(42, 9), random_parents(5, 9, 0), 0, {1});
    run(counted(51, 1), {kNoParent}, 1, {0});
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
  const SequenceMemory memory(backend(), 8, 2, 20);
  const OwnedMatrix y(backend(), kRows, 8);
  const Rows parents = chain(kRows);
  const RecurrentRows sequence{.rows = kRows,
                               .state = memory.state,
                               .kept = memory.kept,
                               .pending = {},
                               .parents = parents,
                               .settled = kRows};
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
  const Rows parents = chain(kRows);
  const auto convolve = [&](Activation activation) {
    const SequenceMemory memory(backend(), 2, 2, 2);
    const RecurrentRows sequence{.rows = kRows,
                                 .state = memory.state,
                                 .kept = memory.kept,
                                 .pending = {},
                                 .parents = parents,
                                 .settled = kRows};
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
  const Rows parents = {kNoParent};
  const auto result = [&](float alpha, float beta) {
    const SequenceMemory memory(backend(), kDim, kDim, 2 * kDim + 2);
    backend().write(memory.state, Floats(kDim * kDim, 8.0f));
    const OwnedMatrix alphas = matrix_of(backend(), 1, 1, Floats{alpha});
    const OwnedMatrix betas = matrix_of(backend(), 1, 1, Floats{beta});
    const RecurrentRows sequence{.rows = 1,
                                 .state = memory.state,
                                 .kept = memory.kept,
                                 .pending = {},
                                 .parents = parents,
                                 .settled = 1};
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

// Results and states of every operation after a chain, a tree and a pending path.
Floats results_of(const cpu::Kernels& kernels, std::uint32_t threads) {
  const auto backend = make_cpu_backend_with(kernels, {.threads = threads});
  Floats all;
  const auto keep = [&](const Floats& values) {
    all.insert(all.end(), values.begin(), values.end());
  };
  for (const auto& operation : operations(*backend)) {
    const SequenceMemory memory = operation->new_memory();
    keep(operation->run(Part{memory, counted(0, 40), chain(40), 40}));
    keep(operation->run(Part{memory, counted(40, 9), random_parents(1, 9, 1), 1}));
    keep(operation->run(Part{memory, counted(50, 3), chain(3), 2, {1}}));
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
