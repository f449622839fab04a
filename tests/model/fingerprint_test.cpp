#include "shared/model/fingerprint.h"

#include <gtest/gtest.h>

#include "tests/model/raw_decoder.h"
#include "tests/model/tiny_byte_bpe.h"
#include "tests/model/tiny_tokenizer.h"

namespace edgedraft {
namespace {

using test::RawGguf;

Digest model_of(const RawGguf& raw) {
  const Bytes bytes = raw.bytes();
  return compute_model_fingerprint(GgufFile::parse(bytes).value());
}

// The fingerprint that a reader takes: the stored one, if it is valid.
Digest read_model(const RawGguf& raw) {
  const Bytes bytes = raw.bytes();
  return model_fingerprint(GgufFile::parse(bytes).value()).value();
}

Digest tokenizer_of(const RawGguf& raw) {
  const Bytes bytes = raw.bytes();
  return tokenizer_fingerprint(GgufFile::parse(bytes).value()).value();
}

Digest tokenizer_of(const test::TinyVocabulary& vocabulary) {
  RawGguf raw;
  vocabulary.add_to(raw);
  return tokenizer_of(raw);
}

TEST(FingerprintTest, IgnoresNamesAndOrder) {
  RawGguf raw = test::raw_decoder();
  const Digest digest = model_of(raw);
  raw.add_string("general.name", "another");
  raw.add_string("tokenizer.chat_template", "{{ 1 }}");
  std::swap(raw.tensors[0], raw.tensors[5]);
  std::swap(raw.values[0], raw.values[3]);
  EXPECT_EQ(model_of(raw), digest);
}

TEST(FingerprintTest, DependsOnSizesNamesShapesAndData) {
  const Digest digest = model_of(test::raw_decoder());
  RawGguf raw = test::raw_decoder();
  raw.data[raw.data.size() - 1] ^= std::byte{1};
  EXPECT_NE(model_of(raw), digest) << "bit of the last tensor";
  raw = test::raw_decoder();
  raw.add_f32("llama.rope.scaling.factor", 2.0f);
  EXPECT_NE(model_of(raw), digest) << "size";
  raw = test::raw_decoder();
  std::swap(raw.tensors[2].name, raw.tensors[1].name);
  EXPECT_NE(model_of(raw), digest) << "tensors exchanged";
  raw = test::raw_decoder();
  raw.tensors[0].dims = {5, 8};
  EXPECT_NE(model_of(raw), digest) << "shape";
}

TEST(FingerprintTest, UsesStoredFingerprint) {
  RawGguf raw = test::raw_decoder();
  raw.add_string("edgedraft.fingerprint", std::string(64, 'a'));
  EXPECT_EQ(to_hex(read_model(raw)), std::string(64, 'a'));
}

// Programs that quantise a file copy its metadata.
TEST(FingerprintTest, IgnoresStoredFingerprintOfOtherLayout) {
  RawGguf raw = test::raw_decoder();
  const Bytes plain = raw.bytes();
  const Digest layout = layout_fingerprint(GgufFile::parse(plain)->tensors());
  raw.add_string("edgedraft.fingerprint", std::string(64, 'a'));
  raw.add_string("edgedraft.fingerprint.layout", to_hex(layout));
  EXPECT_EQ(to_hex(read_model(raw)), std::string(64, 'a'));

  raw.tensors[0].dims = {5, 8};
  EXPECT_EQ(read_model(raw), model_of(raw));
}

TEST(FingerprintTest, RefusesInvalidStoredFingerprint) {
  for (const std::string& text : {std::string(), std::string(63, 'a'), std::string(64, 'g')}) {
    RawGguf raw = test::raw_decoder();
    raw.add_string("edgedraft.fingerprint", text);
    raw.add_string("edgedraft.target.fingerprint", text);
    const Bytes bytes = raw.bytes();
    const auto file = GgufFile::parse(bytes);
    EXPECT_FALSE(model_fingerprint(*file));
    EXPECT_FALSE(target_fingerprint_of(*file));
  }
}

TEST(FingerprintTest, MissingTargetErrorNamesConvert) {
  const Bytes bytes = test::raw_decoder().bytes();
  const auto digest = target_fingerprint_of(GgufFile::parse(bytes).value());
  ASSERT_FALSE(digest);
  EXPECT_NE(digest.error().message.find("edgedraft convert"), std::string::npos);
  // The server prints the same error and has no such option.
  EXPECT_EQ(digest.error().message.find("--plain"), std::string::npos);
}

TEST(FingerprintTest, TokenizerFingerprintDependsOnVocabulary) {
  const Digest digest = tokenizer_of(test::TinyVocabulary());
  test::TinyVocabulary vocabulary;
  vocabulary.texts.back() = "z";
  EXPECT_NE(tokenizer_of(vocabulary), digest);
  vocabulary = {};
  vocabulary.scores.back() -= 1;
  EXPECT_NE(tokenizer_of(vocabulary), digest);
  vocabulary = {};
  vocabulary.types.back() = 4;
  EXPECT_NE(tokenizer_of(vocabulary), digest);
  EXPECT_EQ(tokenizer_of(test::TinyVocabulary()), digest);
}

TEST(FingerprintTest, TokenizerFingerprintDependsOnSpaceRule) {
  const auto of = [](const char* rule) {
    RawGguf raw;
    test::TinyVocabulary().add_to(raw);
    raw.add_string("edgedraft.tokenizer.space_prefix", rule);
    return tokenizer_of(raw);
  };
  EXPECT_EQ(of("first"), of("first"));
  EXPECT_NE(of("first"), of("always"));
  EXPECT_NE(of("first"), tokenizer_of(test::TinyVocabulary()));
  // The spacing rule belongs to the tokenizer, not to the model.
  RawGguf raw = test::raw_decoder();
  const Digest digest = model_of(raw);
  raw.add_string("edgedraft.tokenizer.space_prefix", "first");
  EXPECT_EQ(model_of(raw), digest);
}

TEST(FingerprintTest, IgnoresEndIds) {
  const std::string key = "edgedraft.tokenizer.end_ids";
  RawGguf raw;
  test::TinyVocabulary().add_to(raw);
  raw.add_u32("tokenizer.ggml.eot_token_id", 2);
  raw.add_numbers<std::int32_t>(key, 5, {259, 2, 260, 261});
  EXPECT_EQ(tokenizer_of(raw), tokenizer_of(test::TinyVocabulary()));
  raw = test::raw_decoder();
  const Digest digest = model_of(raw);
  raw.add_numbers<std::int32_t>(key, 5, {259, 2, 260, 261});
  EXPECT_EQ(model_of(raw), digest);
}

TEST(FingerprintTest, TokenizerFingerprintDependsOnPreTokenizer) {
  const auto of = [](const char* pre) {
    RawGguf raw;
    test::TinyByteBpe().add_to(raw, pre);
    return tokenizer_of(raw);
  };
  EXPECT_EQ(of("gpt-2"), of("gpt-2"));
  EXPECT_NE(of("gpt-2"), of("qwen2"));
}

}  // namespace
}  // namespace edgedraft
