#include <gtest/gtest.h>

#include <algorithm>

#include "shared/base/random.h"
#include "shared/model/tokenizer.h"
#include "tests/model/tiny_byte_bpe.h"
#include "tests/support/expect.h"

namespace edgedraft {
namespace {

using test::RawGguf;
using test::TinyByteBpe;
using Ids = std::vector<std::uint32_t>;

Result<Tokenizer> read(const TinyByteBpe& vocabulary, const std::string& pre) {
  RawGguf raw;
  vocabulary.add_to(raw, pre);
  const Bytes bytes = raw.bytes();
  return Tokenizer::read(GgufFile::parse(bytes).value());
}

class ByteBpeTest : public ::testing::Test {
 protected:
  std::uint32_t id(const std::string& text) const { return vocabulary_.id(text); }
  Ids encode(const std::string& text) const { return tokenizer_.encode(text, Special::plain); }

  TinyByteBpe vocabulary_;
  Tokenizer tokenizer_ = read(vocabulary_, "gpt-2").value();
};

// "Ġ t" ranks before "th e": the lower rank wins at any position.
TEST_F(ByteBpeTest, MergesByRank) {
  EXPECT_EQ(encode("the"), Ids{id("the")});
  EXPECT_EQ(encode(" the"), Ids{id("Ġthe")});
  EXPECT_EQ(encode(" ta"), (Ids{id("Ġt"), id("a")}));
  EXPECT_EQ(encode("the cat"), (Ids{id("the"), id("Ġcat")}));
}

TEST_F(ByteBpeTest, MergesEqualPairsFromTheLeft) {
  EXPECT_EQ(encode("aaa"), (Ids{id("aa"), id("a")}));
  EXPECT_EQ(encode("aaaaa"), (Ids{id("aa"), id("aa"), id("a")}));
}

TEST_F(ByteBpeTest, NeverMergesAcrossWords) {
  EXPECT_EQ(encode("a t"), (Ids{id("a"), id("Ġt")}));
  EXPECT_EQ(encode("a1t"), (Ids{id("a"), id("1"), id("t")}));
}

TEST_F(ByteBpeTest, IgnoreMergesTakesWholeWordEntries) {
  EXPECT_NE(encode("whole"), Ids{id("whole")});
  const auto llama3 = read(vocabulary_, "llama-bpe");
  ASSERT_TRUE(llama3);
  EXPECT_EQ(llama3->encode("whole", Special::plain), Ids{id("whole")});
}

TEST_F(ByteBpeTest, RoundTripsEveryByte) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  std::string back;
  for (const std::uint32_t token : encode(all)) back += tokenizer_.token_bytes(token);
  EXPECT_EQ(back, all);
  EXPECT_EQ(encode("\xC3"), Ids{0xC3});
}

TEST_F(ByteBpeTest, RoundTripsRandomTexts) {
  Random random(20260102);
  const std::vector<std::string> parts = {"a",  " ",  "the",  "é",       "\u00A0", "𝄞", "\n", "<|",
                                          "'s", "12", "日本", "e\u0301", "\xF0",   "!", "\t", "D"};
  for (const char* pre :
       {"gpt-2", "llama-bpe", "smaug-bpe", "deepseek-r1-qwen", "starcoder", "default"}) {
    const Tokenizer tokenizer = read(vocabulary_, pre).value();
    for (int i = 0; i < 100; ++i) {
      std::string text;
      for (std::uint64_t n = random.below(40); n > 0; --n)
        text += parts[random.below(parts.size())];
      std::string back;
      for (const std::uint32_t token : tokenizer.encode(text, Special::plain)) {
        back += tokenizer.token_bytes(token);
      }
      EXPECT_EQ(back, text) << pre << ", round " << i;
    }
  }
}

TEST_F(ByteBpeTest, StreamsWholeCharacters) {
  Detokenizer detokenizer(tokenizer_, LeadingSpace::strip);
  EXPECT_EQ(detokenizer.push(0xE2), "");
  EXPECT_EQ(detokenizer.push(0x82), "");
  EXPECT_EQ(detokenizer.push(0xAC), "€");
  EXPECT_EQ(detokenizer.push(id("Ġthe")), " the") << "no leading space was added";
}

TEST_F(ByteBpeTest, ParsesControlTokensOnlyOnRequest) {
  for (const char* text : {"<|eot_id|>", "<|note|>"}) {
    EXPECT_EQ(tokenizer_.encode(std::string("a") + text, Special::parse), (Ids{id("a"), id(text)}));
    const Ids plain = encode(text);
    EXPECT_EQ(std::count(plain.begin(), plain.end(), id(text)), 0) << text;
    EXPECT_EQ(decode(tokenizer_, plain, LeadingSpace::strip), text);
  }
}

TEST_F(ByteBpeTest, NeverSplitsUserDefinedSymbols) {
  for (const Special special : {Special::parse, Special::plain}) {
    EXPECT_EQ(tokenizer_.encode("a<code>a", special), (Ids{id("a"), id("<code>"), id("a")}));
  }
  EXPECT_EQ(tokenizer_.token_bytes(id("<code>")), "<code>");
}

TEST_F(ByteBpeTest, IgnoresMergesIntoControlTokens) {
  vocabulary_.merges.push_back("t a");
  vocabulary_.add("ta", 3);
  const auto tokenizer = read(vocabulary_, "gpt-2").value();
  EXPECT_EQ(tokenizer.encode("ta", Special::plain), (Ids{id("t"), id("a")}));
}

TEST_F(ByteBpeTest, RecognisesUsualEndOfTurnTokens) {
  vocabulary_.add("<|end_of_text|>", 3);
  vocabulary_.add("<EOT>", 1);
  const auto tokenizer = read(vocabulary_, "gpt-2").value();
  for (const char* text : {"<|eot_id|>", "<|end_of_text|>"}) {
    EXPECT_TRUE(tokenizer.is_end(id(text))) << "without a key: " << text;
  }
  EXPECT_FALSE(tokenizer.is_end(id("<EOT>"))) << "ordinary token";
  EXPECT_FALSE(tokenizer_.is_end(id("<|note|>")));
}

TEST_F(ByteBpeTest, EndTokensOfRecentFamilies) {
  const char* const kEnds[] = {"<|return|>",           "<|call|>", "<eos>", "<turn|>",
                               "<|tool_response>",     "[EOT]",    "[EOS]", "[e~[",
                               "<｜end▁of▁sentence｜>"};
  for (const char* text : kEnds) vocabulary_.add(text, 3);
  vocabulary_.add("</s>", 3);
  const auto tokenizer = read(vocabulary_, "gpt-2").value();
  for (const char* text : kEnds) EXPECT_TRUE(tokenizer.is_end(id(text))) << text;
  EXPECT_FALSE(tokenizer.is_end(id("</s>"))) << "only if a key names it";
}

// Messages of gpt-oss: <|start|>assistant<|channel|>analysis<|message|>...<|end|>.
TEST_F(ByteBpeTest, AnswerOfSeveralMessagesGoesOnAfterEachEnd) {
  vocabulary_.add("<|end|>", 3);
  vocabulary_.add("<|channel|>", 3);
  const auto phi3 = read(vocabulary_, "gpt-2").value();
  EXPECT_TRUE(phi3.is_end(id("<|end|>")));
  EXPECT_EQ(phi3.token_bytes(id("<|channel|>")), "");

  vocabulary_.add("<|return|>", 3);
  vocabulary_.add("<|call|>", 3);
  const auto gpt_oss = read(vocabulary_, "gpt-2").value();
  EXPECT_FALSE(gpt_oss.is_end(id("<|end|>")));
  EXPECT_TRUE(gpt_oss.is_end(id("<|return|>")));
  EXPECT_EQ(gpt_oss.token_bytes(id("<|channel|>")), "<|channel|>") << "a reader needs it";
  const Ids typed = gpt_oss.encode("<|channel|>", Special::plain);
  EXPECT_EQ(std::count(typed.begin(), typed.end(), id("<|channel|>")), 0);
}

// Gemma 4's files label them as user-defined.
TEST_F(ByteBpeTest, OneSidedMarkersAreNeverTyped) {
  for (const char* text : {"<|tool_call>", "<tool_call|>"}) {
    vocabulary_.add(text, 4);
    const auto tokenizer = read(vocabulary_, "gpt-2").value();
    const Ids plain = tokenizer.encode(text, Special::plain);
    EXPECT_EQ(std::count(plain.begin(), plain.end(), id(text)), 0) << text;
    EXPECT_EQ(tokenizer.encode(text, Special::parse), Ids{id(text)});
    EXPECT_EQ(tokenizer.token_bytes(id(text)), text) << "shown";
  }
}

// A coder model writes another file after them.
TEST_F(ByteBpeTest, FileSeparatorsEndAnswer) {
  for (const char* text : {"<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"}) {
    vocabulary_.add(text, 3);
  }
  for (const char* text : {"<fim_pad>", "<reponame>", "<file>"}) vocabulary_.add(text, 3);
  RawGguf raw;
  vocabulary_.add_to(raw, "gpt-2");
  raw.add_u32("tokenizer.ggml.fim_pad_token_id", id("<fim_pad>"));
  raw.add_u32("tokenizer.ggml.fim_rep_token_id", id("<reponame>"));
  raw.add_u32("tokenizer.ggml.fim_sep_token_id", id("<file>"));
  const Bytes bytes = raw.bytes();
  const auto tokenizer = Tokenizer::read(GgufFile::parse(bytes).value()).value();
  for (const char* text :
       {"<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<fim_pad>", "<reponame>", "<file>"}) {
    EXPECT_TRUE(tokenizer.is_end(id(text))) << text;
  }
}

TEST_F(ByteBpeTest, ReportsWhetherTextsBeginWithBos) {
  EXPECT_FALSE(tokenizer_.add_bos());
  EXPECT_TRUE(read(vocabulary_, "llama-bpe")->add_bos());
}

TEST_F(ByteBpeTest, UnknownPreTokenizerListsKnownOnes) {
  const auto tokenizer = read(vocabulary_, "tekken-9");
  ASSERT_TRUE(fails_with(tokenizer, Errc::unsupported));
  for (const char* named : {"tekken-9", "llama-bpe", "lfm2", "gpt-2", "--pre NAME"}) {
    EXPECT_TRUE(contains(tokenizer.error().message, named)) << named;
  }
}

TEST_F(ByteBpeTest, RefusesMergesOfUnknownEntries) {
  for (const char* merge : {"x y", "xyz", " ", "t zzz", ""}) {
    TinyByteBpe vocabulary;
    vocabulary.merges.push_back(merge);
    EXPECT_TRUE(fails_with(read(vocabulary, "gpt-2"), Errc::bad_file)) << merge;
  }
}

// Quadratic work would exceed the test's timeout.
TEST_F(ByteBpeTest, EncodesMegabytesInLinearTime) {
  for (const std::string unit :
       {"a", " ", "\xFF", "\n", "1", "<|", " \n", "the cat", "\xC3", "\u0301"}) {
    std::string text;
    while (text.size() < 1 << 20) text += unit;
    std::string back;
    for (const std::uint32_t token : tokenizer_.encode(text, Special::parse)) {
      back += tokenizer_.token_bytes(token);
    }
    EXPECT_TRUE(back == text) << "unit " << unit;
  }
}

// Combining marks in the wrong order, which normalisation has to sort.
TEST_F(ByteBpeTest, NormalisesMegabyteOfCombiningMarks) {
  std::string text = "a";
  std::string sorted = "ạ";
  for (int i = 0; i < 1 << 18; ++i) text += "\u0301\u0323";
  for (int i = 1; i < 1 << 18; ++i) sorted += "\u0323";
  for (int i = 0; i < 1 << 18; ++i) sorted += "\u0301";
  const Tokenizer qwen2 = read(vocabulary_, "qwen2").value();
  EXPECT_TRUE(decode(qwen2, qwen2.encode(text, Special::plain), LeadingSpace::keep) == sorted);
}

}  // namespace
}  // namespace edgedraft
