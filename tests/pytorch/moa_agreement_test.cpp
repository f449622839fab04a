#include <gtest/gtest.h>

#include <numeric>

#include "shared/drafting/bundle_conversion.h"
#include "shared/drafting/moa/moa_network.h"
#include "shared/drafting/moa/moa_tap.h"
#include "shared/model/gguf.h"
#include "shared/runtime/decoder.h"
#include "tests/model/temporary_directory.h"
#include "tests/pytorch/expected.h"
#include "tests/support/matrix_reading.h"

namespace edgedraft {
namespace {

using testing::expect_agreement;
using testing::Expected;
using testing::read_logits;
using testing::read_matrix;
using Tokens = std::vector<std::uint32_t>;

// The whole split, from a checkpoint in the public layout: target and tap here, network there.
class MoaAgreementTest : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override {
    const auto target = convert_model(
        {.input = folder_ / "target", .output = directory_ / "target.gguf", .type = DType::f32});
    ASSERT_TRUE(target) << target.error().message;
    const auto bundle = make_bundle({.target = directory_ / "target.gguf",
                                     .drafter = drafter_folder(),
                                     .output = directory_ / "moa.gguf",
                                     .type = DType::f32});
    ASSERT_TRUE(bundle) << bundle.error().message;
    target_file_ = GgufFile::open(directory_ / "target.gguf").value();
    bundle_file_ = GgufFile::open(directory_ / "moa.gguf").value();
    const DecoderConfig config = read_decoder_config(target_file_).value();
    decoder_ = std::make_unique<Decoder>(*backend_, config,
                                         read_decoder_tensors(target_file_, config).value(), 128);
    config_ = read_moa_config(bundle_file_).value();
    tensors_ = read_moa_tensors(bundle_file_, config_).value();
    ASSERT_EQ(config_.tli, GetParam());
  }

  std::filesystem::path drafter_folder() const {
    return folder_ / ("moa-tli" + std::to_string(GetParam()));
  }

  std::filesystem::path folder_ = EDGEDRAFT_TEST_DATA "/fixtures/moa";
  test::TemporaryDirectory directory_;
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 2});
  GgufFile target_file_;
  GgufFile bundle_file_;
  std::unique_ptr<Decoder> decoder_;
  MoaConfig config_;
  MoaTensors tensors_;
};

TEST_P(MoaAgreementTest, LogitsMatchPyTorchThroughRoundsOfAcceptingAndRejecting) {
  const Expected expected(drafter_folder());
  MoaTap tap(*backend_, config_, tensors_);
  MoaNetwork network(*backend_, config_, tensors_, 128);
  KvCache cache = decoder_->make_cache();
  std::uint32_t rounds = 0;
  for (std::string r = "round0"; expected.has(r + ".tokens");
       r = "round" + std::to_string(++rounds)) {
    const Tokens tokens = expected.tokens(r + ".tokens");
    const auto verified = static_cast<std::uint32_t>(tokens.size()) - 1;
    const std::uint32_t known = cache.length();
    if (verified > known) {
      decoder_->append(cache, std::span(tokens).subspan(known, verified - known));
      std::vector<float> rows(std::size_t{verified - known} * network.row_layout().cols());
      tap.read(cache, known, verified - known, rows);
      network.extend_memory(known, rows);
    }
    // A round without progress only drafts again, behind the same root.
    if (network.committed_count() == tokens.size()) network.truncate(verified);
    network.commit(std::span(tokens).subspan(network.committed_count()));
    expect_agreement(read_logits(network), expected.floats(r + ".root_logits"), r + " root");

    const Tokens nodes = expected.tokens(r + ".nodes");
    const auto parents = expected.ints(r + ".parents");
    const auto logits = expected.floats(r + ".logits");
    std::vector<DraftNode> drafted;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      DraftNode node{.token = nodes[i], .depth = 1, .ancestors = {}};
      if (parents[i] >= 0) {
        const DraftNode& parent = drafted[static_cast<std::size_t>(parents[i])];
        node.depth = parent.depth + 1;
        node.ancestors = parent.ancestors;
        node.ancestors.set(static_cast<std::uint32_t>(parents[i]));
      }
      drafted.push_back(node);
      network.expand(std::span(&drafted.back(), 1));
      const std::size_t vocabulary = network.vocabulary_count();
      expect_agreement(read_logits(network), std::span(logits).subspan(i * vocabulary, vocabulary),
                       r + " node " + std::to_string(i));
    }
  }
  EXPECT_GE(rounds, 3u);
}

TEST_P(MoaAgreementTest, LayerMeanMatchesPyTorch) {
  const Expected expected(drafter_folder());
  const auto m = expected.floats("m");
  const std::uint32_t cols = config_.layer_self_attention.dim;
  const auto count = static_cast<std::uint32_t>(m.size() / cols);
  std::uint32_t last_round = 0;
  while (expected.has("round" + std::to_string(last_round + 1) + ".tokens")) ++last_round;
  const Tokens tokens = expected.tokens("round" + std::to_string(last_round) + ".tokens");
  ASSERT_EQ(tokens.size(), count + 1);
  KvCache cache = decoder_->make_cache();
  decoder_->append(cache, std::span(tokens).first(count));
  LayerSelfAttention lsa(*backend_, config_, tensors_);
  OwnedMatrix mean(*backend_, count, cols);
  Tokens slots(count);
  std::iota(slots.begin(), slots.end(), 0u);
  lsa.mean(cache, slots, mean.all());
  expect_agreement(read_matrix(*backend_, mean.all()), m, "m");
}

INSTANTIATE_TEST_SUITE_P(Tli, MoaAgreementTest, ::testing::Values(0u, 1u, 3u));

}  // namespace
}  // namespace edgedraft
