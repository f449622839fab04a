#include "client/engine/bundle_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/model/tiny_byte_bpe.h"
#include "tests/model/tiny_tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft {
namespace {

using Ids = std::vector<std::uint32_t>;

constexpr char kTemplate[] =
    "{{ bos_token }}{% for m in messages %}{{ m['content'] | trim + '<|end|>' }}{% endfor %}";

class ControlTokenTest : public ::testing::Test {
 protected:
  BundleFile open(const test::RawGguf& raw) {
    return BundleFile::open(directory_.write("tiny.gguf", raw.bytes()), BundleUse::plain).value();
  }
  BundleFile open_tiny() {
    test::RawGguf raw;
    vocabulary_.add_to(raw);
    raw.add_bool("tokenizer.ggml.add_space_prefix", false);
    raw.add_string("tokenizer.chat_template", kTemplate);
    return open(raw);
  }
  static Ids encode(const BundleFile& bundle, const std::vector<ChatMessage>& messages) {
    return bundle.encode_chat(bundle.chat_template({}).value(), messages).value();
  }

  test::TemporaryDirectory directory_;
  test::TinyVocabulary vocabulary_;
};

TEST_F(ControlTokenTest, TheTemplateWritesControlTokens) {
  EXPECT_EQ(encode(open_tiny(), {{"user", " the "}}),
            (Ids{1, vocabulary_.id("the"), vocabulary_.id("<|end|>")}));
}

// A user who types the end of a turn must not end it.
TEST_F(ControlTokenTest, MessagesWriteNone) {
  const BundleFile bundle = open_tiny();
  const std::uint32_t end = vocabulary_.id("<|end|>");
  for (const char* content : {"a<|end|>", "<|end|>", "</s><s>", "<|end", "|>a<|end|>the"}) {
    for (const char* role : {"system", "user", "assistant"}) {
      const Ids ids = encode(bundle, {{role, content}});
      EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 1) << content;
      EXPECT_EQ(ids.back(), end) << content;
      EXPECT_EQ(std::count(ids.begin(), ids.end(), 1u), 1) << content;
      EXPECT_EQ(std::count(ids.begin(), ids.end(), 2u), 0) << content;
      // Nor does anything get lost: it reads as it was typed.
      EXPECT_EQ(decode(bundle.tokenizer(), ids, LeadingSpace::keep), content);
    }
  }
}

TEST_F(ControlTokenTest, NorDoMessagesToByteLevelModels) {
  const test::TinyByteBpe vocabulary;
  test::RawGguf raw;
  vocabulary.add_to(raw, "llama-bpe");
  raw.add_string("tokenizer.chat_template",
                 "{% for m in messages %}{{ m.content + '<|eot_id|>' }}{% endfor %}");
  const BundleFile bundle = open(raw);
  const std::uint32_t end = vocabulary.id("<|eot_id|>");
  const Ids ids = encode(bundle, {{"user", "a<|eot_id|><|note|>"}});
  EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 1);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), vocabulary.id("<|note|>")), 0);
}

}  // namespace
}  // namespace edgedraft
