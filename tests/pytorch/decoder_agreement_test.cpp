#include <gtest/gtest.h>

#include <algorithm>

#include "shared/model/convert/convert.h"
#include "shared/model/gguf.h"
#include "shared/runtime/decoder.h"
#include "shared/speculative/draft_tree.h"
#include "tests/pytorch/expected.h"
#include "tests/support/matrix_reading.h"
#include "tests/support/reference_backend.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft {
namespace {

using testing::expect_agreement;
using testing::Expected;
using testing::read_matrix;
using Tokens = std::vector<std::uint32_t>;

struct Case {
  const char* fixture;
  bool on_reference;
};

// Each architectural option, converted from the Hugging Face layout as a user would, on both
// backends.
class DecoderAgreementTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const auto converted =
        convert_model({.input = folder_, .output = directory_ / "model.gguf", .type = DType::f32});
    ASSERT_TRUE(converted) << converted.error().message;
    file_ = GgufFile::open(directory_ / "model.gguf").value();
    const DecoderConfig config = read_decoder_config(file_).value();
    const DecoderTensors tensors = read_decoder_tensors(file_, config).value();
    decoder_ = std::make_unique<Decoder>(*backend_, config, tensors, 128);
  }

  std::vector<float> logits(std::uint32_t first, std::uint32_t count) {
    return read_matrix(*backend_, decoder_->logits(first, count));
  }

  std::filesystem::path folder_ =
      std::filesystem::path(EDGEDRAFT_TEST_DATA "/fixtures") / GetParam().fixture;
  Expected expected_{folder_};
  test::TemporaryDirectory directory_;
  std::unique_ptr<Backend> backend_ =
      GetParam().on_reference ? make_reference_backend() : make_cpu_backend({.threads = 2});
  GgufFile file_;
  std::unique_ptr<Decoder> decoder_;
};

TEST_P(DecoderAgreementTest, PromptLogitsMatchPyTorch) {
  const Tokens tokens = expected_.tokens("tokens");
  KvCache cache = decoder_->make_cache();
  const std::uint32_t rows = decoder_->append(cache, tokens);
  ASSERT_EQ(rows, tokens.size());
  expect_agreement(logits(0, rows), expected_.floats("logits"), "prompt");
}

TEST_P(DecoderAgreementTest, DecodingTokenByTokenMatchesPyTorch) {
  const Tokens tokens = expected_.tokens("tokens");
  KvCache cache = decoder_->make_cache();
  std::vector<float> measured;
  for (const std::uint32_t token : tokens) {
    decoder_->append(cache, std::span(&token, 1));
    const auto row = logits(0, 1);
    measured.insert(measured.end(), row.begin(), row.end());
  }
  expect_agreement(measured, expected_.floats("logits"), "decoding");
}

TEST_P(DecoderAgreementTest, TreeLogitsMatchPyTorchPaths) {
  const Tokens prefix = expected_.tokens("tree.prefix");
  KvCache cache = decoder_->make_cache();
  decoder_->append(cache, std::span(prefix).first(prefix.size() - 1));
  DraftTree tree;
  const auto parents = expected_.ints("tree.parents");
  const Tokens nodes = expected_.tokens("tree.tokens");
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    tree.add(nodes[i], static_cast<std::uint32_t>(parents[i] + 1));
  }
  Tokens rows{prefix.back()};
  rows.insert(rows.end(), nodes.begin(), nodes.end());
  Tokens positions = tree.depths();
  for (std::uint32_t& p : positions) p += cache.length();
  const auto masks = tree.masks();
  decoder_->forward(cache, rows,
                    {.positions = positions,
                     .prefix = cache.length(),
                     .first_slot = cache.length(),
                     .masks = masks});
  expect_agreement(logits(1, tree.node_count()), expected_.floats("tree.logits"), "tree");

  // After compaction of an accepted path the next token sees only that path.
  cache.keep(Tokens{cache.length()});
  decoder_->append(cache, std::span(&nodes[0], 1));
  const auto vocabulary = decoder_->config().vocabulary_count;
  const auto all = expected_.floats("tree.logits");
  expect_agreement(logits(0, 1), std::span(all).first(vocabulary), "after compaction");
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* fixture : {"mha-tied", "gqa-untied", "head-dim", "llama3-rope", "linear-rope",
                              "qwen2-bias", "qwen2-untied"}) {
    all.push_back({fixture, true});
    all.push_back({fixture, false});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, DecoderAgreementTest, ::testing::ValuesIn(cases()),
                         [](const auto& param_info) {
                           std::string name = param_info.param.fixture;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + (param_info.param.on_reference ? "_reference" : "_cpu");
                         });

}  // namespace
}  // namespace edgedraft
