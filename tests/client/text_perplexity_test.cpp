#include "client/commands/text_perplexity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "tests/support/matrix_reading.h"
#include "tests/support/reference_backend.h"
#include "tests/support/toy_models.h"

namespace edgedraft::client {
namespace {

using testing::kToyVocabulary;
using testing::ToyDecoder;
using Tokens = std::vector<std::uint32_t>;

class TextPerplexityTest : public ::testing::Test {
 protected:
  PerplexityMeter measure(const Tokens& tokens, std::optional<std::uint32_t> bos,
                          std::uint32_t window) {
    return measure_perplexity(decoder_, tokens, bos, window,
                              [this](std::uint64_t count) { advanced_ += count; });
  }

  // Nats of the last `count` tokens of `window`, summed over one whole pass.
  double nats(const Tokens& window, std::size_t count) {
    KvCache cache = decoder_.make_cache();
    const std::uint32_t rows = decoder_.append(cache, window);
    const auto logits = testing::read_matrix(*backend_, decoder_.logits(0, rows));
    double sum = 0;
    for (std::size_t i = window.size() - count; i < window.size(); ++i) {
      const float* row = &logits[(i - 1) * kToyVocabulary];
      double total = 0;
      for (std::uint32_t token = 0; token < kToyVocabulary; ++token) {
        total += std::exp(double{row[token]});
      }
      sum -= std::log(std::exp(double{row[window[i]]}) / total);
    }
    return sum;
  }

  ToyDecoder toy_{4};
  std::unique_ptr<Backend> backend_ = make_reference_backend();
  Decoder decoder_{*backend_, toy_.config, toy_.tensors, 64};
  std::uint64_t advanced_ = 0;
};

TEST_F(TextPerplexityTest, WindowsBeginWithBosAndCountSecondHalf) {
  Tokens tokens;
  for (std::uint32_t i = 0; i < 20; ++i) tokens.push_back(3 + i * 7 % 61);
  const PerplexityMeter meter = measure(tokens, 1, 8);
  // One and twenty tokens form two windows of eight; five are left out.
  Tokens first{1};
  first.insert(first.end(), tokens.begin(), tokens.begin() + 7);
  Tokens second{1};  // replaces tokens[7]
  second.insert(second.end(), tokens.begin() + 8, tokens.begin() + 15);
  EXPECT_EQ(meter.count(), 6u);
  EXPECT_EQ(advanced_, 16u);
  const double expected = std::exp((nats(first, 3) + nats(second, 3)) / 6);
  EXPECT_NEAR(meter.perplexity(), expected, 1e-4 * expected);
}

TEST_F(TextPerplexityTest, WindowsKeepOwnFirstTokenWithoutBos) {
  const Tokens tokens = {5, 9, 33, 4, 60, 12, 7, 8, 41};
  const PerplexityMeter meter = measure(tokens, {}, 4);
  const double sum = nats({5, 9, 33, 4}, 1) + nats({60, 12, 7, 8}, 1);
  EXPECT_EQ(meter.count(), 2u);
  EXPECT_NEAR(meter.perplexity(), std::exp(sum / 2), 1e-4 * std::exp(sum / 2));
}

TEST_F(TextPerplexityTest, ShortTextIsOneWindow) {
  const PerplexityMeter meter = measure({5, 9, 33}, 1, 64);
  EXPECT_EQ(meter.count(), 1u);
  EXPECT_NEAR(std::log(meter.perplexity()), nats({1, 5, 9, 33}, 1), 1e-4);
  EXPECT_EQ(meter.standard_error(), std::nullopt);
  EXPECT_EQ(measure({}, 1, 64).count(), 0u);
}

TEST_F(TextPerplexityTest, UniformModelHasPerplexityOfVocabularySize) {
  toy_.tensors.output = toy_.pool->normal(kToyVocabulary, toy_.config.layer.dim, 0.0);
  Decoder ignorant(*backend_, toy_.config, toy_.tensors, 64);
  const Tokens tokens(40, 5);
  const PerplexityMeter meter = measure_perplexity(ignorant, tokens, 1, 16, [](std::uint64_t) {});
  EXPECT_NEAR(meter.perplexity(), kToyVocabulary, 1e-9);
}

TEST(PerplexityMeterTest, GivesPerplexityAndStandardError) {
  PerplexityMeter meter;
  for (const double nats : {1.0, 2.0, 3.0}) meter.add(nats);
  EXPECT_NEAR(meter.perplexity(), std::exp(2.0), 1e-12);
  // The variance is 2/3, of three numbers.
  EXPECT_NEAR(meter.standard_error().value(), std::exp(2.0) * std::sqrt(2.0 / 3 / 2), 1e-12);
}

}  // namespace
}  // namespace edgedraft::client
