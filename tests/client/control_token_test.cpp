#include "client/engine/bundle_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "client/privacy/open_text.h"
#include "tests/model/tiny_byte_bpe.h"
#include "tests/model/tiny_tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::client {
namespace {

using Ids = std::vector<std::uint32_t>;

constexpr char kTemplate[] =
    "{{ bos_token }}{% for m in messages %}{{ m['content'] | trim + '<|end|>' }}{% endfor %}";

class ControlTokenTest : public ::testing::Test {
 protected:
  test::RawGguf raw_with(const char* chat_template) {
    test::RawGguf raw;
    vocabulary_.add_to(raw);
    raw.add_string("tokenizer.chat_template", chat_template);
    return raw;
  }
  BundleFile open(const test::RawGguf& raw) {
    return BundleFile::open(directory_.write("tiny.gguf", raw.bytes()), BundleUse::plain).value();
  }
  BundleFile open_tiny() {
    test::RawGguf raw = raw_with(kTemplate);
    raw.add_bool("tokenizer.ggml.add_space_prefix", false);
    return open(raw);
  }
  static Ids encode(const BundleFile& bundle, const std::vector<ChatMessage>& messages) {
    return bundle.encode_chat(bundle.chat_template({}).value(), messages).value();
  }

  test::TemporaryDirectory directory_;
  test::TinyVocabulary vocabulary_;
};

TEST_F(ControlTokenTest, TemplateProducesControlTokens) {
  EXPECT_EQ(encode(open_tiny(), {{"user", " the "}}),
            (Ids{1, vocabulary_.id("the"), vocabulary_.id("<|end|>")}));
}

// A user who types the end of a turn must not end it.
TEST_F(ControlTokenTest, MessagesProduceNone) {
  const BundleFile bundle = open_tiny();
  const std::uint32_t end = vocabulary_.id("<|end|>");
  for (const char* content : {"a<|end|>", "<|end|>", "</s><s>", "<|end", "|>a<|end|>the"}) {
    for (const char* role : {"system", "user", "assistant"}) {
      const Ids ids = encode(bundle, {{role, content}});
      EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 1) << content;
      EXPECT_EQ(ids.back(), end) << content;
      EXPECT_EQ(std::count(ids.begin(), ids.end(), 1u), 1) << content;
      EXPECT_EQ(std::count(ids.begin(), ids.end(), 2u), 0) << content;
      // The text is complete: it decodes as typed.
      EXPECT_EQ(decode(bundle.tokenizer(), ids, LeadingSpace::keep), content);
    }
  }
}

TEST_F(ControlTokenTest, MessagesProduceNoneForByteLevelModels) {
  const test::TinyByteBpe vocabulary;
  test::RawGguf raw;
  vocabulary.add_to(raw, "llama-bpe");
  raw.add_string("tokenizer.chat_template",
                 "{% for m in messages %}{{ m.content + '<|eot_id|>' }}{% endfor %}");
  const BundleFile bundle = open(raw);
  const std::uint32_t end = vocabulary.id("<|eot_id|>");
  const Ids ids = encode(bundle, {{"user", "a<|eot_id|><|note|>"}});
  // The template's token, besides the one that begins this model's texts.
  EXPECT_EQ(std::count(ids.begin() + 1, ids.end(), end), 1);
  EXPECT_EQ(ids.back(), end);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), vocabulary.id("<|note|>")), 0);
}

// TinyLlama's and Zephyr's template writes no BOS token, and their models answer far worse without
// it.
TEST_F(ControlTokenTest, AddsBosTokenThatModelRequiresAndTemplateOmits) {
  struct Case {
    const char* chat_template;
    bool adds;
    std::ptrdiff_t count;  // occurrences of the BOS token
  };
  constexpr char kZephyr[] = "{{ '<|user|>\n' + messages[0].content + '<|end|>' }}";
  constexpr char kLlama3[] = "{{ bos_token + messages[0].content + '<|end|>' }}";
  constexpr char kLast[] = "{{ messages[0].content + bos_token + '<|end|>' }}";
  for (const Case& c : {Case{kZephyr, true, 1},
                        {kZephyr, false, 0},
                        {kLlama3, true, 1},
                        {kLlama3, false, 1},
                        {kLast, true, 2}}) {
    test::RawGguf raw = raw_with(c.chat_template);
    raw.add_bool("tokenizer.ggml.add_bos_token", c.adds);
    const BundleFile bundle = open(raw);
    // Typing its characters does not produce the token.
    for (const char* content : {"the", "<s>the"}) {
      const Ids ids = encode(bundle, {{"user", content}});
      EXPECT_EQ(std::count(ids.begin(), ids.end(), 1u), c.count) << c.chat_template << content;
      EXPECT_EQ(ids.front() == 1u, c.count > 0) << c.chat_template << content;
    }
  }
}

// Hugging Face puts that token before the text's ids, and tokenizes the text as if it came first.
TEST_F(ControlTokenTest, BosTokenLeavesSpacePrefixOfFirstWord) {
  test::RawGguf raw = raw_with("{{ messages[0].content }}");
  raw.add_string("edgedraft.tokenizer.space_prefix", "first");
  EXPECT_EQ(encode(open(raw), {{"user", "the cat"}}),
            (Ids{1, vocabulary_.id("▁the"), vocabulary_.id("▁cat")}));
}

TEST_F(ControlTokenTest, EmptyChatGetsNoBosToken) {
  EXPECT_EQ(encode(open(raw_with("{# nothing #}")), {{"user", "the"}}), Ids{});
}

// The server may see the BOS token if it may see the text after it.
TEST_F(ControlTokenTest, BosTokenIsOpenIfTextIsOpen) {
  const BundleFile bundle = open_tiny();
  OpenTokens some{.tokens = {270, 271}, .open_count = 1};
  begin_text(some, bundle.tokenizer());
  EXPECT_EQ(some.tokens, (Ids{1, 270, 271}));
  EXPECT_EQ(some.open_count, 2u);
  begin_text(some, bundle.tokenizer());
  EXPECT_EQ(some.tokens.size(), 3u);
  EXPECT_EQ(some.open_count, 2u);
  OpenTokens none{.tokens = {270}, .open_count = 0};
  begin_text(none, bundle.tokenizer());
  EXPECT_EQ(none.tokens, (Ids{1, 270}));
  EXPECT_EQ(none.open_count, 0u);
}

}  // namespace
}  // namespace edgedraft::client
