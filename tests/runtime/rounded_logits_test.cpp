#include <algorithm>
#include <filesystem>

#include "shared/model/gguf.h"
#include "shared/runtime/decoder.h"
#include "tests/runtime/op_test.h"

namespace edgedraft::testing {
namespace {

// The logits of a chain of tokens, all rows.
Floats demo_logits(Backend& backend, std::span<const std::uint32_t> tokens) {
  const GgufFile file =
      GgufFile::open(std::filesystem::path(EDGEDRAFT_MODELS) / "target.gguf").value();
  const DecoderConfig config = read_decoder_config(file).value();
  const DecoderTensors tensors = read_decoder_tensors(file, config).value();
  Decoder decoder(backend, config, tensors, 64);
  KvCache cache = decoder.make_cache();
  const std::uint32_t rows = decoder.append(cache, tokens);
  return values_of(backend, decoder.logits(0, rows));
}

// What rounding activations to int8 does to a whole model: a step is largest / 127 of 128 numbers,
// about three standard deviations, so an input is off by 3 / 127 / sqrt(12) = 0.7 % of its size
// (RMS). Each of a layer's four products adds such an error to the residual, in quadrature and
// weighed with its share of it: one or two per cent in the end.
TEST(RoundedLogitsTest, AreCloseToTheReferenceOnTheDemoTarget) {
  std::vector<std::uint32_t> tokens(24);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::uint32_t>(300 + 37 * i);
  }
  const auto reference = make_reference_backend();
  const auto cpu = make_cpu_backend({.threads = 2});
  const Floats exact = demo_logits(*reference, tokens);
  const Floats rounded = demo_logits(*cpu, tokens);
  ASSERT_EQ(exact.size(), rounded.size());

  const std::size_t vocabulary = exact.size() / tokens.size();
  std::size_t same_best = 0;
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    const auto a = std::span(exact).subspan(row * vocabulary, vocabulary);
    const auto b = std::span(rounded).subspan(row * vocabulary, vocabulary);
    double mean = 0.0;
    for (const float x : a) mean += double{x} / static_cast<double>(vocabulary);
    double error = 0.0;
    double spread = 0.0;
    for (std::size_t i = 0; i < vocabulary; ++i) {
      error += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
      spread += (double{a[i]} - mean) * (double{a[i]} - mean);
    }
    EXPECT_LE(std::sqrt(error / spread), 0.04) << "row " << row;
    same_best += std::max_element(a.begin(), a.end()) - a.begin() ==
                 std::max_element(b.begin(), b.end()) - b.begin();
  }
  EXPECT_GE(same_best, tokens.size() - 2);
}

}  // namespace
}  // namespace edgedraft::testing
