
#include <gtest/gtest.h>

#include <algorithm>

#include "shared/drafting/bundle_conversion.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/fingerprint.h"
#include "tests/model/raw_decoder.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft {
namespace {

using test::RawGguf;
using Texts = std::vector<std::string>;

constexpr std::int32_t kNormal = 1;
constexpr std::int32_t kUnused = 5;
constexpr std::size_t kTokensMax = 5;  // vocabulary of raw_decoder

// A model with one token per text; texts that begin with [PAD pad the vocabulary.
RawGguf model_of(const Texts& texts) {
  RawGguf raw = test::raw_decoder();
  EXPECT_EQ(raw.tensors[0].name, "token_embd.weight");
  EXPECT_LE(texts.size(), kTokensMax);
  raw.tensors[0].dims = {8, texts.size()};
  raw.add_u32("llama.vocab_size", static_cast<std::uint32_t>(texts.size()));
  std::vector<std::int32_t> types;
  for (const std::string& text : texts)
    types.push_back(text.starts_with("[PAD") ? kUnused : kNormal);
  raw.add_string("tokenizer.ggml.model", "gpt2");
  raw.add_strings("tokenizer.ggml.tokens", texts);
  raw.add_numbers("tokenizer.ggml.token_type", 5, types);
  return raw;
}

class IndependentBundleTest : public ::testing::Test {
 protected:
  std::filesystem::path path(std::string_view name) const { return folder_ / name; }

  Result<void> bundle(const RawGguf& target, const RawGguf& drafter,
                      const std::vector<std::uint32_t>& draft_tokens = {}) {
    folder_.write("target.gguf", target.bytes());
    folder_.write("drafter.gguf", drafter.bytes());
    return make_bundle({.target = path("target.gguf"),
                        .drafter = path("drafter.gguf"),
                        .output = path("bundle.gguf"),
                        .type = DType::f32,
                        .draft_tokens = draft_tokens});
  }

  void expect_mismatch(const RawGguf& target, const RawGguf& drafter, const std::string& words) {
    EXPECT_TRUE(fails_with(bundle(target, drafter), Errc::mismatch, words)) << words;
    EXPECT_FALSE(std::filesystem::exists(path("bundle.gguf")));
  }

  test::TemporaryDirectory folder_;
};

ByteView row_of(const GgufFile& file, std::string_view name, std::uint64_t row) {
  const GgufTensor& tensor = *file.find_tensor(name);
  const std::size_t bytes = tensor.bytes.size() / tensor.rows();
  return tensor.bytes.subspan(row * bytes, bytes);
}

TEST_F(IndependentBundleTest, PadsVocabularyToTargetSize) {
  const auto made =
      bundle(model_of({"a", "b", "[PAD2]", "[PAD3]", "[PAD4]"}), model_of({"a", "b", "[PAD2]"}));
  ASSERT_TRUE(made) << made.error().message;
  const GgufFile file = GgufFile::open(path("bundle.gguf")).value();
  const GgufFile target = GgufFile::open(path("target.gguf")).value();
  const GgufFile drafter = GgufFile::open(path("drafter.gguf")).value();
  const auto model = read_draft_decoder(file).value();
  EXPECT_EQ(model.config.vocabulary_count, 5u);
  EXPECT_EQ(*file.get_u32("llama.vocab_size"), 5u);
  EXPECT_EQ(tokenizer_fingerprint(file).value(), tokenizer_fingerprint(target).value());
  for (std::uint64_t row = 0; row < 5; ++row) {
    EXPECT_TRUE(
        std::ranges::equal(row_of(file, "token_embd.weight", row),
                           row_of(drafter, "token_embd.weight", std::min<std::uint64_t>(row, 2))))
        << row;
  }
}

TEST_F(IndependentBundleTest, DropsFillersBeyondTargetVocabulary) {
  const auto made =
      bundle(model_of({"a", "b", "c"}), model_of({"a", "b", "c", "[PAD3]", "[PAD4]"}));
  ASSERT_TRUE(made) << made.error().message;
  const GgufFile file = GgufFile::open(path("bundle.gguf")).value();
  const GgufFile drafter = GgufFile::open(path("drafter.gguf")).value();
  const auto model = read_draft_decoder(file).value();
  EXPECT_EQ(model.config.vocabulary_count, 3u);
  for (std::uint64_t row = 0; row < 3; ++row) {
    EXPECT_TRUE(std::ranges::equal(row_of(file, "token_embd.weight", row),
                                   row_of(drafter, "token_embd.weight", row)));
  }
}

TEST_F(IndependentBundleTest, PaddedHeadCanBeReduced) {
  const auto made = bundle(model_of({"a", "b", "[PAD2]", "[PAD3]"}), model_of({"a", "b"}), {1, 3});
  ASSERT_TRUE(made) << made.error().message;
  const GgufFile file = GgufFile::open(path("bundle.gguf")).value();
  const auto model = read_draft_decoder(file).value();
  EXPECT_EQ(model.config.draft_tokens, (std::vector<std::uint32_t>{1, 3}));
  EXPECT_EQ(model.config.vocabulary_count, 4u);
}

// Converters classify special tokens differently; the target's tokenizer is used.
TEST_F(IndependentBundleTest, AcceptsDifferentTokenTypes) {
  RawGguf drafter = model_of({"a", "b"});
  drafter.values.pop_back();
  drafter.add_numbers<std::int32_t>("tokenizer.ggml.token_type", 5, {kNormal, 4});
  const auto made = bundle(model_of({"a", "b"}), drafter);
  EXPECT_TRUE(made) << made.error().message;
}

// The bundle takes the spacing rule and the end ids from the target, even if the target has no key.
TEST_F(IndependentBundleTest, TakesSpacingAndEndIdsFromTarget) {
  for (const bool is_targets : {true, false}) {
    RawGguf target = model_of({"a", "b"});
    RawGguf drafter = target;
    RawGguf& with_keys = is_targets ? target : drafter;
    with_keys.add_string("edgedraft.tokenizer.space_prefix", "first");
    with_keys.add_numbers<std::int32_t>("edgedraft.tokenizer.end_ids", 5, {0, 1});
    const auto made = bundle(target, drafter);
    ASSERT_TRUE(made) << made.error().message;
    const GgufFile file = GgufFile::open(path("bundle.gguf")).value();
    EXPECT_EQ(file.find_value("edgedraft.tokenizer.space_prefix") != nullptr, is_targets);
    EXPECT_EQ(file.find_value("edgedraft.tokenizer.end_ids") != nullptr, is_targets);
    EXPECT_EQ(tokenizer_fingerprint(file).value(),
              tokenizer_fingerprint(GgufFile::open(path("target.gguf")).value()).value());
  }
}

TEST_F(IndependentBundleTest, RejectsDifferentTokenTexts) {
  expect_mismatch(model_of({"a", "b", "c"}), model_of({"a", "d", "c"}), "different tokenizers");
  expect_mismatch(model_of({"a", "b", "c"}), model_of({"a", "b", "cd"}), "different tokenizers");
  expect_mismatch(model_of({"a", "b", "c"}), model_of({"a", "b"}), "different tokenizers");
  expect_mismatch(model_of({"a", "b"}), model_of({"a", "b", "c"}), "different tokenizers");
  expect_mismatch(model_of({"a", "b", "[PAD2]"}), model_of({"a", "b", "c", "[PAD3]"}),
                  "different tokenizers");
}

TEST_F(IndependentBundleTest, RejectsPaddingMoreThanHalf) {
  expect_mismatch(model_of({"a", "[PAD1]", "[PAD2]", "[PAD3]"}), model_of({"a"}),
                  "1 tokens, the target 4");
}

TEST_F(IndependentBundleTest, RejectsDifferentSizesWithoutTokenizer) {
  RawGguf drafter = model_of({"a", "b"});
  drafter.values.resize(drafter.values.size() - 3);
  expect_mismatch(model_of({"a", "b", "[PAD2]"}), drafter, "2 tokens, the target 3");
}

}  // namespace
}  // namespace edgedraft
