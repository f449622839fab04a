#include <algorithm>
#include <filesystem>

#include "shared/model/gguf.h"
#include "shared/model/tokenizer.h"
#include "shared/runtime/decoder.h"
#include "tests/runtime/op_test.h"

namespace edgedraft::testing {
namespace {

GgufFile demo_target() {
  return GgufFile::open(std::filesystem::path(EDGEDRAFT_MODELS) / "target.gguf").value();
}

// Logits of all rows of a text.
Floats logits_of(Backend& backend, const GgufFile& file, std::span<const std::uint32_t> tokens) {
  const DecoderConfig config = read_decoder_config(file).value();
  const DecoderTensors tensors = read_decoder_tensors(file, config).value();
  Decoder decoder(backend, config, tensors, kMaskRowsMax);
  KvCache cache = decoder.make_cache();
  const std::uint32_t rows = decoder.append(cache, tokens);
  return values_of(backend, decoder.logits(0, rows));
}

std::vector<double> probabilities(std::span<const float> logits) {
  const double best{*std::max_element(logits.begin(), logits.end())};
  std::vector<double> p;
  double total = 0.0;
  for (const float x : logits) total += p.emplace_back(std::exp(double{x} - best));
  for (double& x : p) x /= total;
  return p;
}

// Effect of int8 activations on a whole model. A step is largest / 127 of up to 128 values, about
// three standard deviations, so an input is off by 3 / 127 / sqrt(12) = 0.7 % of its size. Some
// twenty matmuls in sequence make that 3 %, or a tenth of a nat for logits that spread over three.
// The KL divergence of the next token's distribution is half the square of that: 0.005 nats.
using RoundedLogitsTest = OpTest;

TEST_P(RoundedLogitsTest, PreserveNextTokenDistributionOfDemoTarget) {
  const GgufFile file = demo_target();
  const std::vector<std::uint32_t> tokens = Tokenizer::read(file).value().encode(
      "Once upon a time there was a little girl named Lily. She loved to play in the garden "
      "with her dog. One day, she found a big red ball under the tree.",
      Special::plain);
  const auto reference = make_reference_backend();
  const Floats exact = logits_of(*reference, file, tokens);
  const Floats rounded = logits_of(backend(), file, tokens);
  ASSERT_EQ(exact.size(), rounded.size());

  const std::size_t vocabulary = exact.size() / tokens.size();
  double divergence = 0.0;
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    const auto p = probabilities(std::span(exact).subspan(row * vocabulary, vocabulary));
    const auto q = probabilities(std::span(rounded).subspan(row * vocabulary, vocabulary));
    for (std::size_t i = 0; i < vocabulary; ++i) {
      if (p[i] > 0.0) divergence += p[i] * std::log(p[i] / q[i]);
    }
  }
  EXPECT_LE(divergence / static_cast<double>(tokens.size()), 0.005);
}

// Backends that round activations.
std::vector<BackendFactory> rounding_backends() {
  std::vector<BackendFactory> factories = device_backends();
  factories.push_back({"cpu", [] { return make_cpu_backend({.threads = 2}); }});
  factories.push_back(
      {"vulkan_integer_dot", [] { return open_vulkan({{.integer_dot = true}}); }, "vulkan"});
  return factories;
}

INSTANTIATE_TEST_SUITE_P(Backends, RoundedLogitsTest, ::testing::ValuesIn(rounding_backends()),
                         backend_name);

}  // namespace
}  // namespace edgedraft::testing
