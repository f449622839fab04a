#include <algorithm>
#include <numeric>

#include "tests/runtime/op_test.h"

namespace edgedraft::testing {
namespace {

struct Choice {
  std::vector<std::uint32_t> tokens;
  Floats log_probs;
};

class TopKTest : public OpTest {
 protected:
  Choice top_k(std::span<const float> logits, std::uint32_t rows, std::uint32_t k) {
    const auto cols = static_cast<std::uint32_t>(logits.size() / rows);
    const OwnedMatrix matrix = matrix_of(backend(), rows, cols, logits);
    Choice choice{std::vector<std::uint32_t>(std::size_t{rows} * k), Floats(std::size_t{rows} * k)};
    backend().top_k(
        {.logits = matrix.all(), .k = k, .tokens = choice.tokens, .log_probs = choice.log_probs});
    return choice;
  }
};

class ArgmaxTest : public OpTest {
 protected:
  std::vector<std::uint32_t> argmax(std::span<const float> logits, std::uint32_t rows) {
    const auto cols = static_cast<std::uint32_t>(logits.size() / rows);
    const OwnedMatrix matrix = matrix_of(backend(), rows, cols, logits);
    std::vector<std::uint32_t> tokens(rows);
    backend().argmax({.logits = matrix.all(), .tokens = tokens});
    return tokens;
  }
};

// Four equal logits are a probability of 1/4 each; the ties go to the lower token.
TEST_P(TopKTest, OrdersByValueThenByToken) {
  const Choice choice = top_k(Floats{-1000, 3, 3, -1000, 3, 3}, 1, 3);
  EXPECT_EQ(choice.tokens, (std::vector<std::uint32_t>{1, 2, 4}));
  for (const float log_prob : choice.log_probs) EXPECT_NEAR(log_prob, std::log(0.25f), 1e-6f);
}

TEST_P(TopKTest, AgreesWithSortAndFloat64) {
  for (const std::uint32_t cols :
       {1u, 31u, 32u, 33u, 127u, 128u, 1025u, 4095u, 4096u, 4097u, 8191u, 8193u, 32003u}) {
    constexpr std::uint32_t kRows = 3;
    Floats logits = random_floats(cols, std::size_t{kRows} * cols);
    // Few distinct values, so that ties are frequent.
    for (float& x : logits) x = std::round(x * 40.0f) / 4.0f;
    for (const std::uint32_t wanted : {1u, 4u, 10u, 256u}) {
      const std::uint32_t k = std::min(wanted, cols);
      const Choice choice = top_k(logits, kRows, k);
      for (std::uint32_t r = 0; r < kRows; ++r) {
        const std::span<const float> x = std::span(logits).subspan(std::size_t{r} * cols, cols);
        std::vector<std::uint32_t> order(cols);
        std::iota(order.begin(), order.end(), 0u);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::uint32_t a, std::uint32_t b) { return x[a] > x[b]; });
        double sum = 0.0;
        for (const float value : x) sum += std::exp(double{value});
        for (std::uint32_t i = 0; i < k; ++i) {
          ASSERT_EQ(choice.tokens[r * k + i], order[i]) << "rank " << i << " of " << cols;
          expect_near(choice.log_probs[r * k + i], double{x[order[i]]} - std::log(sum), 4e-6,
                      "log probability");
        }
      }
    }
  }
}

// Backends first select within groups of a row: each group yields only equal values, more than
// requested.
TEST_P(TopKTest, SelectsLowestTokensAmongEqualLogits) {
  for (const float value : {0.0f, -0.0f, 7.25f, -1e30f}) {
    for (const std::uint32_t cols : {256u, 4097u, 9001u}) {
      const Choice choice = top_k(Floats(2 * std::size_t{cols}, value), 2, 256);
      for (std::uint32_t i = 0; i < 2 * 256; ++i) {
        ASSERT_EQ(choice.tokens[i], i % 256) << value << ", " << cols;
        ASSERT_NEAR(choice.log_probs[i], -std::log(static_cast<double>(cols)), 4e-6);
      }
    }
  }
}

TEST_P(TopKTest, ZerosOfBothSignsAreEqual) {
  EXPECT_EQ(top_k(Floats{-1, -0.0f, 0, -0.0f, 0, -2}, 1, 5).tokens,
            (std::vector<std::uint32_t>{1, 2, 3, 4, 0}));
}

// All values of a row differ, but only in their last bits; the best come last.
TEST_P(TopKTest, DistinguishesLogitsByTheirLastBits) {
  constexpr std::uint32_t kCols = 10000;
  for (const float sign : {1.0f, -1.0f}) {
    Floats logits(kCols);
    for (std::uint32_t i = 0; i < kCols; ++i) {
      logits[i] = sign * (1.0f + static_cast<float>(sign > 0 ? i : kCols - i) * 0x1p-23f);
    }
    const Choice choice = top_k(logits, 1, 256);
    for (std::uint32_t i = 0; i < 256; ++i) ASSERT_EQ(choice.tokens[i], kCols - 1 - i) << sign;
  }
}

// Masked logits: long runs, including the first and last of a row, are impossible.
TEST_P(TopKTest, RanksImpossibleTokensLast) {
  constexpr std::uint32_t kCols = 5 * 4096 + 3;
  Floats logits(kCols, -INFINITY);
  logits[9000] = -200.0f;
  logits[9001] = -199.0f;
  logits[14000] = -200.0f;
  const Choice choice = top_k(logits, 1, 5);
  EXPECT_EQ(choice.tokens, (std::vector<std::uint32_t>{9001, 9000, 14000, 0, 1}));
  const double log_sum = std::log(1.0 + 2.0 * std::exp(-1.0));
  EXPECT_NEAR(choice.log_probs[0], -log_sum, 4e-6);
  EXPECT_NEAR(choice.log_probs[1], -1.0 - log_sum, 4e-6);
  EXPECT_NEAR(choice.log_probs[2], -1.0 - log_sum, 4e-6);
  EXPECT_EQ(choice.log_probs[3], -INFINITY);
  EXPECT_EQ(choice.log_probs[4], -INFINITY);
}

TEST_P(TopKTest, ReturnsValidTokensForNanLogits) {
  Floats logits(40, NAN);
  logits[17] = 2.0f;
  const Choice choice = top_k(logits, 1, 4);
  EXPECT_EQ(choice.tokens, (std::vector<std::uint32_t>{17, 0, 1, 2}));

  Floats many(3 * 4096, NAN);
  many[5000] = -3.0f;
  many[12000] = INFINITY;
  EXPECT_EQ(top_k(many, 1, 4).tokens, (std::vector<std::uint32_t>{12000, 5000, 0, 1}));
  many[5000] = many[12000] = NAN;
  const Choice none = top_k(many, 1, 256);
  for (std::uint32_t i = 0; i < 256; ++i) ASSERT_EQ(none.tokens[i], i);
}

TEST_P(ArgmaxTest, ReturnsFirstOfEqualMaxima) {
  EXPECT_EQ(argmax(Floats{1, 5, 2, 5, -7, -3, -3, -9}, 2), (std::vector<std::uint32_t>{1, 1}));
}

TEST_P(ArgmaxTest, AgreesWithLinearSearchAtEverySize) {
  for (const std::uint32_t cols : {1u, 31u, 32u, 33u, 127u, 128u, 32003u}) {
    const Floats logits = random_floats(cols, 4 * std::size_t{cols});
    const std::vector<std::uint32_t> tokens = argmax(logits, 4);
    for (std::size_t r = 0; r < 4; ++r) {
      const auto row = logits.begin() + static_cast<std::ptrdiff_t>(r * cols);
      EXPECT_EQ(tokens[r], std::max_element(row, row + cols) - row);
    }
  }
}

// At any distance: a backend may process parts of a row separately.
TEST_P(ArgmaxTest, ReturnsFirstOfEqualMaximaInLongRow) {
  constexpr std::uint32_t kCols = 9001;
  const std::vector<std::vector<std::uint32_t>> rows = {
      {9000, 2048, 2047, 5000}, {8999, 9000}, {0, 9000}, {4096, 6144, 8192}};
  Floats logits = random_floats(1, rows.size() * kCols);
  std::vector<std::uint32_t> first;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (const std::uint32_t token : rows[r]) logits[r * kCols + token] = 2.0f;
    first.push_back(*std::min_element(rows[r].begin(), rows[r].end()));
  }
  EXPECT_EQ(argmax(logits, static_cast<std::uint32_t>(rows.size())), first);
}

TEST_P(ArgmaxTest, ReturnsValidTokenForNanLogits) {
  Floats logits(33, NAN);
  EXPECT_EQ(argmax(logits, 1)[0], 0u);
  logits[20] = -INFINITY;
  logits[32] = -5.0f;
  EXPECT_EQ(argmax(logits, 1)[0], 32u);
  Floats many(5000, NAN);
  EXPECT_EQ(argmax(many, 1)[0], 0u);
  many[4000] = -1e30f;
  EXPECT_EQ(argmax(many, 1)[0], 4000u);
}

EDGEDRAFT_FOR_ALL_BACKENDS(TopKTest);
EDGEDRAFT_FOR_ALL_BACKENDS(ArgmaxTest);

}  // namespace
}  // namespace edgedraft::testing
