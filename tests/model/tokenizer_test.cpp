#include "shared/model/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "shared/base/random.h"
#include "tests/model/raw_gguf.h"
#include "tests/model/tiny_tokenizer.h"
#include "tests/support/expect.h"

namespace edgedraft {
namespace {

using test::RawGguf;
using test::TinyVocabulary;
using Ids = std::vector<std::uint32_t>;

Result<Tokenizer> read(const RawGguf& raw) {
  const Bytes bytes = raw.bytes();
  const auto file = GgufFile::parse(bytes);
  if (!file) return file.error();
  return Tokenizer::read(*file);
}

RawGguf file_of(const TinyVocabulary& vocabulary) {
  RawGguf raw;
  vocabulary.add_to(raw);
  return raw;
}

enum class SpacePrefix { on, off };

Tokenizer tiny(SpacePrefix prefix) {
  RawGguf raw = file_of({});
  raw.add_bool("tokenizer.ggml.add_space_prefix", prefix == SpacePrefix::on);
  auto tokenizer = read(raw);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(tokenizer.value());
}

class TokenizerTest : public ::testing::Test {
 protected:
  std::uint32_t id(const std::string& text) const { return vocabulary_.id(text); }
  TinyVocabulary vocabulary_;
  Tokenizer tokenizer_ = tiny(SpacePrefix::on);
};

TEST_F(TokenizerTest, MergesByScore) {
  EXPECT_EQ(tokenizer_.encode("the cat", Special::plain), (Ids{id("▁the"), id("▁cat")}));
  EXPECT_EQ(tokenizer_.encode("that", Special::plain), (Ids{id("▁"), id("th"), id("at")}));
}

TEST_F(TokenizerTest, EncodesUnknownCharactersAsBytes) {
  EXPECT_EQ(tokenizer_.encode("a!", Special::plain), (Ids{id("▁"), id("a"), id("<0x21>")}));
  EXPECT_EQ(tokenizer_.encode("ü", Special::plain), (Ids{id("▁"), id("<0xC3>"), id("<0xBC>")}));
}

TEST_F(TokenizerTest, KeepsEverySpace) {
  EXPECT_EQ(tokenizer_.encode("  a ", Special::plain), (Ids{id("▁▁"), id("▁"), id("a"), id("▁")}));
}

TEST_F(TokenizerTest, EmptyTextHasNoTokens) {
  EXPECT_EQ(tokenizer_.encode("", Special::plain), Ids{});
  EXPECT_EQ(tokenizer_.encode("", Special::parse), Ids{});
}

TEST_F(TokenizerTest, ParsesControlTokensOnlyOnRequest) {
  const Tokenizer tokenizer = tiny(SpacePrefix::off);
  EXPECT_EQ(tokenizer.encode("<s>a</s>", Special::parse), (Ids{1, id("a"), 2}));
  for (const std::uint32_t token : tokenizer.encode("<s>a</s>", Special::plain)) {
    EXPECT_NE(tokenizer.token_type(token), TokenType::control);
  }
}

TEST_F(TokenizerTest, ControlTokenMayBeSingleCharacter) {
  RawGguf raw;
  vocabulary_.texts[2] = "€";
  vocabulary_.add_to(raw);
  const auto tokenizer = read(raw);
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(tokenizer->encode("€", Special::parse), Ids{2});
  const Ids plain = tokenizer->encode("€", Special::plain);
  EXPECT_EQ(decode(*tokenizer, plain, LeadingSpace::strip), "€");
}

TEST_F(TokenizerTest, NeverSplitsUserDefinedSymbols) {
  vocabulary_.add("<code>", 0, 4);
  RawGguf raw = file_of(vocabulary_);
  raw.add_bool("tokenizer.ggml.add_space_prefix", false);
  const auto tokenizer = read(raw).value();
  for (const Special special : {Special::parse, Special::plain}) {
    EXPECT_EQ(tokenizer.encode("the<code>", special), (Ids{id("the"), id("<code>")}));
  }
}

// The tiny vocabulary marks <
// end
// > as user-defined, as some files do.
TEST_F(TokenizerTest, TurnMarkersAreControlTokensOfAnyType) {
  const Tokenizer tokenizer = tiny(SpacePrefix::off);
  EXPECT_EQ(tokenizer.encode("the<|end|>", Special::parse), (Ids{id("the"), id("<|end|>")}));
  const Ids plain = tokenizer.encode("the<|end|>", Special::plain);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), id("<|end|>")), 0);
  EXPECT_EQ(decode(tokenizer, plain, LeadingSpace::strip), "the<|end|>");
}

TEST_F(TokenizerTest, ForeignTextHasNoControlTokens) {
  const Tokenizer tokenizer = tiny(SpacePrefix::off);
  MarkedText text = MarkedText::own("<s>");
  text.append(MarkedText::foreign("the</s>"));
  text.append(MarkedText::own("<|end|>"));
  const Ids ids = tokenizer.encode(text);
  EXPECT_EQ(ids.front(), 1u);
  EXPECT_EQ(ids.back(), id("<|end|>"));
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 2u), 0);
}

// Untrusted text may supply neither half of a token.
TEST_F(TokenizerTest, ForeignTextCompletesNoControlToken) {
  const Tokenizer tokenizer = tiny(SpacePrefix::off);
  for (const auto& [own, foreign] : {std::pair("</", "s>"), std::pair("<|end", "|>")}) {
    for (const bool foreign_first : {false, true}) {
      MarkedText text = foreign_first ? MarkedText::foreign(own) : MarkedText::own(own);
      text.append(foreign_first ? MarkedText::own(foreign) : MarkedText::foreign(foreign));
      for (const std::uint32_t token : tokenizer.encode(text)) {
        EXPECT_NE(tokenizer.token_type(token), TokenType::control);
        EXPECT_FALSE(tokenizer.is_end(token));
      }
    }
  }
}

// Adjacent parts merge as if they were one text.
TEST_F(TokenizerTest, ForeignTextMergesWithItsSurroundings) {
  MarkedText text = MarkedText::own("t");
  text.append(MarkedText::foreign("he c"));
  text.append(MarkedText::own("at"));
  EXPECT_EQ(tokenizer_.encode(text), (Ids{id("▁the"), id("▁cat")}));
}

// Hugging Face's rules put no space before an added token and end a part at every one.
TEST_F(TokenizerTest, FollowsHuggingFaceSpaceRules) {
  vocabulary_.add("<code>", 0, 4);
  const auto with_rule = [this](const char* rule) {
    RawGguf raw = file_of(vocabulary_);
    raw.add_string("edgedraft.tokenizer.space_prefix", rule);
    auto tokenizer = read(raw);
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    return std::move(tokenizer.value());
  };
  const Tokenizer first = with_rule("first");
  const Tokenizer always = with_rule("always");
  struct Case {
    const char* text;
    Ids first;
    Ids always;
  };
  const Ids the = {id("▁the")};
  const Case cases[] = {
      {"", {}, {}},
      {"the", the, the},
      {" the", the, the},
      {"▁the", the, the},
      {"  a", {id("▁▁"), id("a")}, {id("▁▁"), id("a")}},
      {"<s>the", {1, id("the")}, {1, id("▁the")}},
      {"<s> the", {1, id("▁the")}, {1, id("▁the")}},
      {"the<|end|>the",
       {id("▁the"), id("<|end|>"), id("the")},
       {id("▁the"), id("<|end|>"), id("▁the")}},
      {"<code>the", {id("<code>"), id("the")}, {id("<code>"), id("▁the")}},
      {"the<code> the",
       {id("▁the"), id("<code>"), id("▁the")},
       {id("▁the"), id("<code>"), id("▁the")}},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(first.encode(c.text, Special::parse), c.first) << c.text;
    EXPECT_EQ(always.encode(c.text, Special::parse), c.always) << c.text;
  }
  // SentencePiece's default, for a file that names no rule.
  EXPECT_EQ(tokenizer_.encode(" the", Special::parse), (Ids{id("▁"), id("▁the")}));
}

// As in llama.cpp, and in Hugging Face after the normalizer Prepend.
TEST_F(TokenizerTest, AddsSpaceAfterUserDefinedSymbols) {
  vocabulary_.add("<code>", 0, 4);
  const auto tokenizer = read(file_of(vocabulary_)).value();
  const std::uint32_t code = id("<code>");
  const std::pair<const char*, Ids> cases[] = {
      {"the<code>the", {id("▁the"), code, id("▁the")}},
      {"<code>the", {code, id("▁the")}},
      {"<code><code>", {code, code}},
      {"the<code>\n", {id("▁the"), code, id("▁"), id("<0x0A>")}},
      {"<code> the", {code, id("▁"), id("▁the")}},
  };
  for (const Special special : {Special::parse, Special::plain}) {
    for (const auto& [text, ids] : cases) EXPECT_EQ(tokenizer.encode(text, special), ids) << text;
  }
}

// As Hugging Face's decoders do, regardless of the space's origin.
TEST_F(TokenizerTest, DecodingStripsOneSpaceUnderEveryRule) {
  for (const char* rule : {"first", "always"}) {
    RawGguf raw = file_of(vocabulary_);
    raw.add_string("edgedraft.tokenizer.space_prefix", rule);
    const auto tokenizer = read(raw).value();
    EXPECT_TRUE(tokenizer.adds_space_prefix());
    for (const auto& [text, back] : {std::pair("the cat", "the cat"), std::pair(" the", "the"),
                                     std::pair("  the", " the"), std::pair("é", "é")}) {
      const Ids ids = tokenizer.encode(text, Special::plain);
      EXPECT_EQ(decode(tokenizer, ids, LeadingSpace::strip), back) << rule;
    }
  }
}

TEST_F(TokenizerTest, RefusesUnknownSpaceRules) {
  const std::string key = "edgedraft.tokenizer.space_prefix";
  RawGguf unknown = file_of(vocabulary_);
  unknown.add_string(key, "last");
  RawGguf number = file_of(vocabulary_);
  number.add_u32(key, 1);
  RawGguf contradiction = file_of(vocabulary_);
  contradiction.add_string(key, "first");
  contradiction.add_bool("tokenizer.ggml.add_space_prefix", false);
  for (const RawGguf& raw : {unknown, number, contradiction}) {
    EXPECT_TRUE(fails_with(read(raw), Errc::bad_file, key));
  }
}

TEST_F(TokenizerTest, ReadsBosAndEndTokens) {
  EXPECT_EQ(tokenizer_.bos_id(), 1u);
  EXPECT_EQ(tokenizer_.eos_id(), id("<|end|>"));
  EXPECT_TRUE(tokenizer_.is_end(id("<|end|>")));
  EXPECT_FALSE(tokenizer_.is_end(id("the")));
  EXPECT_EQ(tokenizer_.token_bytes(id("<|end|>")), "");
}

TEST_F(TokenizerTest, ReadsEndOfTurnFromFile) {
  RawGguf raw = file_of(vocabulary_);
  raw.add_u32("tokenizer.ggml.eot_token_id", 2);
  const auto tokenizer = read(raw);
  ASSERT_TRUE(tokenizer);
  EXPECT_TRUE(tokenizer->is_end(2));
  EXPECT_TRUE(tokenizer->is_end(id("<|end|>")));
}

// Some models' tools leave them as ordinary entries.
TEST_F(TokenizerTest, BosAndEndMarkersAreControlTokensOfAnyType) {
  vocabulary_.types[1] = 1;  // bos_token_id
  vocabulary_.types[id("<|end|>")] = 1;
  vocabulary_.add("<|im_end|>", 0, 1);  // not named by a key
  RawGguf raw = file_of(vocabulary_);
  raw.add_bool("tokenizer.ggml.add_space_prefix", false);
  const auto tokenizer = read(raw).value();
  EXPECT_TRUE(tokenizer.is_end(id("<|im_end|>")));
  for (const char* text : {"<s>", "<|end|>", "<|im_end|>"}) {
    const std::string whole = std::string("the") + text;
    EXPECT_EQ(tokenizer.encode(whole, Special::parse), (Ids{id("the"), id(text)}));
    const Ids plain = tokenizer.encode(whole, Special::plain);
    EXPECT_EQ(std::count(plain.begin(), plain.end(), id(text)), 0) << text;
    EXPECT_EQ(decode(tokenizer, plain, LeadingSpace::strip), whole);
  }
}

// For some models a line end ends an answer.
TEST_F(TokenizerTest, OrdinaryEndTokenStaysInText) {
  RawGguf raw = file_of(vocabulary_);
  raw.add_u32("tokenizer.ggml.eot_token_id", id("▁the"));
  const auto tokenizer = read(raw).value();
  EXPECT_TRUE(tokenizer.is_end(id("▁the")));
  EXPECT_EQ(tokenizer.encode("the cat", Special::plain), (Ids{id("▁the"), id("▁cat")}));
}

class RoundTripTest : public ::testing::TestWithParam<std::string> {};

TEST_P(RoundTripTest, RestoresText) {
  for (const SpacePrefix prefix : {SpacePrefix::on, SpacePrefix::off}) {
    const Tokenizer tokenizer = tiny(prefix);
    const Ids ids = tokenizer.encode(GetParam(), Special::plain);
    EXPECT_EQ(decode(tokenizer, ids, LeadingSpace::strip), GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(OddTexts, RoundTripTest,
                         ::testing::Values("", " ", "  ", "\n", "\t\r\n ", "the cat", " the  cat ",
                                           "ünï çödé", "日本語", "👩‍👩‍👧 🇩🇪",
                                           "e\xCC\x81", std::string("a\0b", 3), "\x7F\x01",
                                           "<0x0A>", "<s",
                                           "\xEF\xBB\xBF"
                                           "bom",
                                           "٠١٢ \xE2\x80\xAE"
                                           "rtl",
                                           "�"));

TEST_F(TokenizerTest, RoundTripsRandomTexts) {
  Random random(20260101);
  const std::vector<std::string> parts = {"a", " ", "the", "é", "▂", "𝄞", "\n", "<|", "t", "0"};
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (std::uint64_t n = random.below(40); n > 0; --n) text += parts[random.below(parts.size())];
    const Ids ids = tokenizer_.encode(text, Special::plain);
    EXPECT_EQ(decode(tokenizer_, ids, LeadingSpace::strip), text) << "round " << i;
  }
}

TEST_F(TokenizerTest, BrokenUtf8BecomesReplacementCharacters) {
  for (const std::string text : {"\xFF", "\xC3", "a\xE2\x82", "\xED\xA0\x80", "\xF5\x80\x80\x80"}) {
    const std::string back =
        decode(tokenizer_, tokenizer_.encode(text, Special::plain), LeadingSpace::strip);
    EXPECT_TRUE(contains(back, "\xEF\xBF\xBD"));
  }
}

// Quadratic work would exceed the test's timeout.
TEST_F(TokenizerTest, EncodesMegabytesInLinearTime) {
  for (const std::string unit : {"a", " ", "<s", "the cat", "é"}) {
    std::string text;
    while (text.size() < 1 << 20) text += unit;
    const Ids ids = tokenizer_.encode(text, Special::plain);
    EXPECT_TRUE(decode(tokenizer_, ids, LeadingSpace::strip) == text) << "unit " << unit;
  }
  EXPECT_FALSE(tokenizer_.encode(std::string(1 << 20, '\xFF'), Special::plain).empty());
}

TEST_F(TokenizerTest, RefusesOtherTokenizers) {
  RawGguf raw;
  raw.add_string("tokenizer.ggml.model", "rwkv");
  EXPECT_TRUE(fails_with(read(raw), Errc::unsupported, "rwkv"));
}

TEST_F(TokenizerTest, RefusesDamagedVocabularies) {
  using V = TinyVocabulary;
  const std::pair<const char*, void (*)(V&)> cases[] = {
      {"scores too few", [](V& v) { v.scores.pop_back(); }},
      {"unknown type", [](V& v) { v.types.back() = 7; }},
      {"negative type", [](V& v) { v.types.back() = -1; }},
      {"empty text", [](V& v) { v.texts.back() = ""; }},
      {"text twice", [](V& v) { v.texts.back() = "the"; }},
      {"zero byte", [](V& v) { v.texts.back() = std::string("a\0b", 3); }},
      {"half a character", [](V& v) { v.texts.back() = "\xC3"; }},
      {"score that is no number", [](V& v) { v.scores.back() = NAN; }},
      {"byte that is none", [](V& v) { v.texts[10] = "<0xZZ>"; }},
      {"a byte missing", [](V& v) { v.types[10] = 1; }},
      {"two unknown tokens", [](V& v) { v.types[1] = 2; }},
      // Time grows with the text's length times the longest piece.
      {"an entry longer than any token", [](V& v) { v.texts.back() = std::string(1025, 'a'); }},
  };
  for (const auto& [what, damage] : cases) {
    TinyVocabulary vocabulary;
    damage(vocabulary);
    EXPECT_TRUE(fails_with(read(file_of(vocabulary)), Errc::bad_file)) << what;
  }
}

// Phi-3's files mark the fillers after its 32,011 entries as unknown, like <unk>.
TEST_F(TokenizerTest, TreatsUnknownFillersAsUnused) {
  for (const bool named : {false, true}) {
    TinyVocabulary v;
    v.add("[PAD274]", -10000.0f, 2);
    v.add("[PAD275]", -10000.0f, 2);
    RawGguf raw = file_of(v);
    raw.add_bool("tokenizer.ggml.add_space_prefix", false);
    if (named) raw.add_u32("tokenizer.ggml.unknown_token_id", 0);
    const auto tokenizer = read(raw).value();
    EXPECT_EQ(tokenizer.token_type(0), TokenType::unknown);
    EXPECT_EQ(tokenizer.token_type(v.id("[PAD275]")), TokenType::unused);
    EXPECT_EQ(tokenizer.encode("the cat", Special::plain), (Ids{v.id("the"), v.id("▁cat")}));
    // The text of a filler is ordinary text.
    const Ids ids = tokenizer.encode("[PAD274]", Special::parse);
    EXPECT_EQ(ids.size(), 8u);
    EXPECT_EQ(decode(tokenizer, ids, LeadingSpace::strip), "[PAD274]");
  }
}

// As above, with <unk> as a control token, as tokenizer_config.json declares it.
TEST_F(TokenizerTest, UnknownTokenMayBeControlBesideFillers) {
  TinyVocabulary v;
  v.types[0] = 3;
  v.add("[PAD274]", -10000.0f, 2);
  v.add("[PAD275]", -10000.0f, 2);
  RawGguf raw = file_of(v);
  raw.add_u32("tokenizer.ggml.unknown_token_id", 0);
  const auto tokenizer = read(raw).value();
  EXPECT_EQ(tokenizer.token_type(v.id("[PAD274]")), TokenType::unused);
  EXPECT_EQ(tokenizer.encode("the", Special::plain), Ids{v.id("▁the")});
}

TEST_F(TokenizerTest, TreatsMinusOneAsNoToken) {
  RawGguf raw = file_of(vocabulary_);
  raw.add_u32("tokenizer.ggml.eot_token_id", std::numeric_limits<std::uint32_t>::max());
  EXPECT_TRUE(read(raw));
}

TEST_F(TokenizerTest, ReadsUnigramModels) {
  RawGguf raw;
  TinyVocabulary v;
  v.add("▁cath", -0.5f, 1);
  raw.add_string("tokenizer.ggml.model", "t5");
  raw.add_strings("tokenizer.ggml.tokens", v.texts);
  raw.add_numbers("tokenizer.ggml.scores", 6, v.scores);
  raw.add_numbers("tokenizer.ggml.token_type", 5, v.types);
  const auto tokenizer = read(raw).value();
  // The most likely segmentation, where merging would have begun with "at".
  EXPECT_EQ(tokenizer.encode("cathe", Special::plain), (Ids{v.id("▁cath"), v.id("e")}));
  EXPECT_EQ(tokenizer.encode("ü", Special::plain),
            (Ids{v.id("▁"), v.id("<0xC3>"), v.id("<0xBC>")}));
}

TEST_F(TokenizerTest, RefusesCharacterMaps) {
  RawGguf raw = file_of(vocabulary_);
  raw.add_numbers<std::uint8_t>("tokenizer.ggml.precompiled_charsmap", 0, {1, 2, 3});
  EXPECT_TRUE(fails_with(read(raw), Errc::unsupported));
}

TEST_F(TokenizerTest, RefusesIdsOutsideTheVocabulary) {
  RawGguf raw = file_of(vocabulary_);
  raw.add_u32("tokenizer.ggml.eot_token_id", static_cast<std::uint32_t>(vocabulary_.texts.size()));
  EXPECT_TRUE(fails_with(read(raw), Errc::bad_file, "eot_token_id"));
}

TEST_F(TokenizerTest, ReadsAdditionalEndIds) {
  RawGguf raw = file_of(vocabulary_);
  raw.add_numbers<std::int32_t>("edgedraft.tokenizer.end_ids", 5, {1, 2, 260, 261, 262});
  const auto tokenizer = read(raw).value();
  for (const std::uint32_t end : {1u, 2u, 260u, 261u, 262u, id("<|end|>")}) {
    EXPECT_TRUE(tokenizer.is_end(end)) << end;
  }
  EXPECT_FALSE(tokenizer.is_end(263));
}

// Many entries may share a spelling; the tiny vocabulary's <
// end
// > is such an end itself.
TEST_F(TokenizerTest, LimitsEndTokensBySpelling) {
  for (int i = 0; i < 255; ++i) vocabulary_.add("<EOT>", 0, 3);
  const auto most = read(file_of(vocabulary_)).value();
  EXPECT_TRUE(most.is_end(id("<EOT>")));
  EXPECT_TRUE(most.is_end(id("<EOT>") + 254));
  EXPECT_FALSE(most.is_end(id("<EOT>") + 255));
  vocabulary_.add("<EOT>", 0, 3);
  EXPECT_TRUE(fails_with(read(file_of(vocabulary_)), Errc::bad_file))
      << "256 of one spelling and one of another";
}

TEST_F(TokenizerTest, RefusesDamagedEndIds) {
  const std::string key = "edgedraft.tokenizer.end_ids";
  const auto count = static_cast<std::int32_t>(vocabulary_.texts.size());
  const std::vector<std::int32_t> lists[] = {
      {}, {2, -1}, {2, count}, std::vector<std::int32_t>(257, 2)};
  std::vector<RawGguf> files(6, file_of(vocabulary_));
  for (std::size_t i = 0; i < 4; ++i) files[i].add_numbers(key, 5, lists[i]);
  files[4].add_u32(key, 2);
  files[5].add_strings(key, {"</s>"});
  for (const RawGguf& raw : files) EXPECT_TRUE(fails_with(read(raw), Errc::bad_file, key));
}

TEST_F(TokenizerTest, RefusesFileWithoutTokenizer) {
  EXPECT_TRUE(fails_with(read(RawGguf{}), Errc::bad_file));
}

}  // namespace
}  // namespace edgedraft
