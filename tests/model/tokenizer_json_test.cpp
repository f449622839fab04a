#include <gtest/gtest.h>

#include "shared/model/convert/hf_tokenizer_json.h"
#include "shared/model/tokenizer.h"
#include "shared/model/tokenizer/space_rule.h"
#include "tests/model/parts_gguf.h"
#include "tests/model/tiny_byte_bpe.h"
#include "tests/model/tiny_tokenizer.h"
#include "tests/support/expect.h"

namespace edgedraft {
namespace {

using nlohmann::json;
using Ids = std::vector<std::uint32_t>;

constexpr std::size_t kCount = 400;
constexpr char kLlama3Pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr char kQwen2Pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

json split_at(const std::string& pattern) {
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
}

// The tiny vocabularies as a tokenizer.json.
json byte_level() {
  const test::TinyByteBpe tiny;
  json vocabulary = json::object();
  json added = json::array();
  for (std::size_t i = 0; i < tiny.texts.size(); ++i) {
    if (tiny.types[i] == 1) {
      vocabulary[tiny.texts[i]] = i;
    } else {
      added.push_back({{"id", i}, {"content", tiny.texts[i]}, {"special", tiny.types[i] == 3}});
    }
  }
  return {
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"post_processor", nullptr},
      {"model",
       {{"type", "BPE"}, {"unk_token", nullptr}, {"vocab", vocabulary}, {"merges", tiny.merges}}}};
}

// Llama 2's form: normalizer, byte_fallback, every merge in the order of the pieces.
json sentencepiece() {
  const test::TinyVocabulary tiny;
  json vocabulary = json::object();
  json merges = json::array();
  for (std::size_t i = 0; i < tiny.texts.size(); ++i) vocabulary[tiny.texts[i]] = i;
  for (std::size_t i = 0; i < tiny.texts.size(); ++i) {
    for (std::size_t cut = 1; cut < tiny.texts[i].size() && tiny.types[i] == 1; ++cut) {
      const std::string left = tiny.texts[i].substr(0, cut);
      const std::string right = tiny.texts[i].substr(cut);
      const bool both = tiny.id(left) < tiny.texts.size() && tiny.id(right) < tiny.texts.size();
      if (both) merges.push_back({left, right});
    }
  }
  return {{"added_tokens",
           {{{"id", 0}, {"content", "<unk>"}, {"special", true}},
            {{"id", 1}, {"content", "<s>"}, {"special", true}},
            {{"id", 2}, {"content", "</s>"}, {"special", true}}}},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", "▁"}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
          {"pre_tokenizer", nullptr},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single",
             {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
              {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"byte_fallback", true},
            {"fuse_unk", true},
            {"vocab", vocabulary},
            {"merges", merges}}}};
}

Tokenizer tokenizer_of(const TokenizerParts& parts) {
  const Bytes bytes = test::gguf_of(parts).bytes();
  return Tokenizer::read(GgufFile::parse(bytes).value()).value();
}

// Parses the text of a file, in which whole numbers are unsigned.
Result<TokenizerParts> parse(const json& file) {
  return read_tokenizer_json(json::parse(file.dump()), kCount);
}

TokenizerParts read(const json& file) {
  const auto parts = parse(file);
  EXPECT_TRUE(parts) << parts.error().message;
  return parts.value();
}

void expect_error(const json& file, Errc code, const std::string& named) {
  const auto parts = parse(file);
  ASSERT_TRUE(fails_with(parts, code, named)) << named;
}

TEST(TokenizerJsonTest, ByteLevelBecomesGpt2) {
  const test::TinyByteBpe tiny;
  const TokenizerParts parts = read(byte_level());
  EXPECT_EQ(parts.model, "gpt2");
  EXPECT_EQ(parts.pre, "gpt-2");
  EXPECT_EQ(parts.merges, tiny.merges);
  EXPECT_EQ(parts.add_bos, false);
  ASSERT_EQ(parts.entries.size(), tiny.texts.size());
  for (std::size_t i = 0; i < tiny.texts.size(); ++i) {
    EXPECT_EQ(parts.entries[i].text, tiny.texts[i]);
    EXPECT_EQ(static_cast<std::int32_t>(parts.entries[i].type), tiny.types[i]) << tiny.texts[i];
  }
  EXPECT_EQ(tokenizer_of(parts).encode("the cat", Special::plain),
            (Ids{tiny.id("the"), tiny.id("Ġcat")}));
}

TEST(TokenizerJsonTest, AcceptsMergesAsPairs) {
  json file = byte_level();
  for (json& merge : file["model"]["merges"]) {
    const auto line = merge.get<std::string>();
    merge = {line.substr(0, line.find(' ')), line.substr(line.find(' ') + 1)};
  }
  EXPECT_EQ(read(file).merges, read(byte_level()).merges);
}

TEST(TokenizerJsonTest, RecognisesPublicPatterns) {
  json file = byte_level();
  file["pre_tokenizer"] = split_at(kLlama3Pattern);
  EXPECT_EQ(read(file).pre, "smaug-bpe");
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(read(file).pre, "llama-bpe");

  file = byte_level();
  file["pre_tokenizer"] = split_at(kQwen2Pattern);
  EXPECT_EQ(read(file).pre, "deepseek-r1-qwen");
  file["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(read(file).pre, "qwen2");

  file = byte_level();
  const json digits = {{"type", "Digits"}, {"individual_digits", true}};
  file["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", {digits, byte_level()["pre_tokenizer"]}}};
  EXPECT_EQ(read(file).pre, "starcoder");
}

TEST(TokenizerJsonTest, RecognisesPatternsOfRecentFamilies) {
  const std::string tail = "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  const std::string upper = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
  const std::string lower = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
  const std::string before = "[^\\r\\n\\p{L}\\p{N}]?";
  const auto cased = [&](const std::string& suffix, const std::string& digits) {
    return before + upper + "*" + lower + "+" + suffix + "|" + before + upper + "+" + lower + "*" +
           suffix + "|" + digits + "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" + tail;
  };
  const std::string suffix = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
  json file = byte_level();
  file["pre_tokenizer"] = split_at(cased(suffix + "?", "\\p{N}{1,3}"));
  EXPECT_EQ(read(file).pre, "gpt-4o");
  // o200k's form: what matches stays, and everything matches.
  json& split = file["pre_tokenizer"]["pretokenizers"][0];
  split["behavior"] = "Removed";
  split["invert"] = true;
  EXPECT_EQ(read(file).pre, "gpt-4o");
  file["pre_tokenizer"] = split_at(suffix + "|" + before +
                                   "[\\p{L}\\p{M}]+|\\p{N}| "
                                   "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" +
                                   tail);
  EXPECT_EQ(read(file).pre, "qwen35");
  file["pre_tokenizer"] = split_at(cased("", "\\p{N}"));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(read(file).pre, "tekken");
  file = byte_level();
  file["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(read(file).pre, "mpt");
}

TEST(TokenizerJsonTest, NamedRulesReplaceTheFilesSplits) {
  json file = byte_level();
  file["pre_tokenizer"] = split_at("\\w+");
  file["pre_tokenizer"]["pretokenizers"].push_back({{"type", "Punctuation"}});
  expect_error(file, Errc::unsupported, "--pre NAME");
  const auto parts = read_tokenizer_json(json::parse(file.dump()), kCount, "lfm2");
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->pre, "lfm2");
  EXPECT_TRUE(fails_with(read_tokenizer_json(file, kCount, "none"), Errc::unsupported, "'none'"));
}

// Gemma's form: spaces are replaced, and the Split at spaces finds none.
TEST(TokenizerJsonTest, GemmaStepsBecomeGemma4) {
  json file = sentencepiece();
  file["normalizer"] = file["normalizer"]["normalizers"][1];
  file["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"String", " "}}},
                           {"behavior", "MergedWithPrevious"},
                           {"invert", false}};
  // Scores could not express this order.
  json& merges = file["model"]["merges"];
  merges.push_back(merges[0]);
  const test::TinyVocabulary tiny;
  const TokenizerParts parts = read(file);
  EXPECT_EQ(parts.model, "gemma4");
  EXPECT_EQ(parts.merges.size(), merges.size());
  EXPECT_EQ(tokenizer_of(parts).encode("the cat", Special::plain),
            (Ids{tiny.id("the"), tiny.id("▁cat")}));
  file["model"]["vocab"]["a\n"] = 300;
  expect_error(file, Errc::unsupported, "line end");
}

// Their files keep line ends in JSON's spelling.
TEST(TokenizerJsonTest, RecognisesDeepSeekPatterns) {
  const auto cut_by = [](const json& patterns, bool digits) {
    json steps = json::array();
    for (const json& pattern : patterns) {
      steps.push_back({{"type", "Split"},
                       {"pattern", {{"Regex", pattern}}},
                       {"behavior", "Isolated"},
                       {"invert", false}});
    }
    if (digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
    steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
    json file = byte_level();
    file["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array()}};
    file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
    return file;
  };
  const json coder = {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-\uD7FF]+"};
  EXPECT_EQ(read(cut_by(coder, true)).pre, "deepseek-coder");
  const json v3 = {"\\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
                   "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
                   "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|"
                   "\\s*[\r\n]+|\\s+(?!\\S)|\\s+"};
  EXPECT_EQ(read(cut_by(v3, false)).pre, "deepseek-v3");
  expect_error(cut_by(v3, true), Errc::unsupported, "{1,3}");
}

TEST(TokenizerJsonTest, SentencePieceBecomesLlama) {
  const test::TinyVocabulary tiny;
  const TokenizerParts parts = read(sentencepiece());
  EXPECT_EQ(parts.model, "llama");
  EXPECT_EQ(parts.space_rule, SpaceRule::each);
  EXPECT_EQ(parts.add_bos, true);
  EXPECT_EQ(parts.bos, 1u);
  EXPECT_EQ(parts.unknown, 0u);
  EXPECT_EQ(parts.entries[1].type, TokenType::control);
  EXPECT_EQ(parts.entries[tiny.id("<0x41>")].type, TokenType::byte);
  EXPECT_GT(parts.entries[tiny.id("th")].score, parts.entries[tiny.id("▁cat")].score);
  // The ids equal those with the vocabulary's own scores.
  test::RawGguf raw;
  tiny.add_to(raw);
  const Bytes bytes = raw.bytes();
  const Tokenizer own = Tokenizer::read(GgufFile::parse(bytes).value()).value();
  const Tokenizer converted = tokenizer_of(parts);
  for (const char* text : {"the cat", "that", "  a ", "ü!", "thethecat", ""}) {
    EXPECT_EQ(converted.encode(text, Special::plain), own.encode(text, Special::plain)) << text;
  }
}

TEST(TokenizerJsonTest, MetaspaceDeterminesSpaceRule) {
  json file = sentencepiece();
  file["normalizer"] = nullptr;
  for (const auto& [scheme, expected] :
       {std::pair("first", SpaceRule::first), std::pair("always", SpaceRule::always),
        std::pair("never", SpaceRule::none)}) {
    file["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", false}};
    EXPECT_EQ(read(file).space_rule, expected) << scheme;
  }
  file["pre_tokenizer"]["prepend_scheme"] = "last";
  expect_error(file, Errc::unsupported, "prepend_scheme last");
  file["pre_tokenizer"].erase("prepend_scheme");
  EXPECT_EQ(read(file).space_rule, SpaceRule::always) << "default of old files";
  file["pre_tokenizer"]["add_prefix_space"] = false;
  EXPECT_EQ(read(file).space_rule, SpaceRule::none);
  // After a Prepend each part begins with a space, whatever Metaspace would add.
  file["normalizer"] = sentencepiece()["normalizer"];
  EXPECT_EQ(read(file).space_rule, SpaceRule::each);
  // The vocabulary has a piece of two spaces.
  file["pre_tokenizer"]["split"] = true;
  expect_error(file, Errc::unsupported, "Metaspace");
}

// From the tests of Hugging Face's Metaspace: " Hey <s>how" becomes "▁Hey▁", "<s>" and "how".
TEST(TokenizerJsonTest, MetaspaceMatchesHuggingFace) {
  const test::TinyVocabulary tiny;
  json file = sentencepiece();
  file["normalizer"] = nullptr;
  const auto encode = [&](const char* scheme, const char* text) {
    file["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", false}};
    return tokenizer_of(read(file)).encode(text, Special::parse);
  };
  const Ids before = {tiny.id("▁the"), tiny.id("▁"), 1};
  const auto behind = [&](Ids ids) {
    ids.insert(ids.begin(), before.begin(), before.end());
    return ids;
  };
  EXPECT_EQ(encode("first", " the <s>cat"), behind({tiny.id("c"), tiny.id("at")}));
  EXPECT_EQ(encode("first", "the <s>cat"), behind({tiny.id("c"), tiny.id("at")}));
  EXPECT_EQ(encode("always", " the <s>cat"), behind({tiny.id("▁cat")}));
  EXPECT_EQ(encode("always", "the <s>cat"), behind({tiny.id("▁cat")}));
  EXPECT_EQ(encode("first", "<s>the"), (Ids{1, tiny.id("the")}));
  EXPECT_EQ(encode("never", "the<s>the"), (Ids{tiny.id("the"), 1, tiny.id("the")}));
}

TEST(TokenizerJsonTest, UnigramBecomesT5) {
  const json file = {
      {"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "▁"}, {"split", true}}},
      {"model",
       {{"type", "Unigram"},
        {"unk_id", 0},
        {"vocab", json::array({{"<unk>", 0.0}, {"▁", -3.0}, {"a", -2.5}, {"▁a", -1.5}})}}}};
  const TokenizerParts parts = read(file);
  EXPECT_EQ(parts.model, "t5");
  EXPECT_EQ(parts.entries[0].type, TokenType::unknown);
  EXPECT_EQ(parts.entries[3].score, -1.5f);
  EXPECT_EQ(parts.space_rule, SpaceRule::always);
  EXPECT_EQ(tokenizer_of(parts).encode("aa", Special::plain), (Ids{3, 2}));
  EXPECT_EQ(tokenizer_of(parts).encode(" aa", Special::plain), (Ids{3, 2}));
}

TEST(TokenizerJsonTest, IdGapsAreUnused) {
  json file = byte_level();
  file["added_tokens"].push_back({{"id", 300}, {"content", "<far>"}, {"special", true}});
  const TokenizerParts parts = read(file);
  ASSERT_EQ(parts.entries.size(), 301u);
  EXPECT_EQ(parts.entries[299].type, TokenType::unused);
  EXPECT_EQ(parts.entries[300].type, TokenType::control);
}

TEST(TokenizerJsonTest, OmitsAddedTokensWithoutEmbeddingRow) {
  json file = byte_level();
  file["added_tokens"].push_back({{"id", kCount}, {"content", "<pad>"}, {"special", true}});
  const TokenizerParts parts = read(file);
  EXPECT_EQ(parts.entries.size(), read(byte_level()).entries.size());
  EXPECT_EQ(parts.left_out, std::set<std::string>{"<pad>"});
}

// Hugging Face then looks for "▁<tool>" in "▁a<tool>" and does not find it.
TEST(TokenizerJsonTest, RefusesNormalizedSymbolsAfterPrepend) {
  json file = sentencepiece();
  file["added_tokens"].push_back(
      {{"id", 300}, {"content", "<tool>"}, {"special", false}, {"normalized", true}});
  expect_error(file, Errc::unsupported, "<tool> with normalized");
  file["added_tokens"].back()["special"] = true;
  EXPECT_EQ(read(file).entries[300].type, TokenType::control) << "as in Llama 2";
  file["added_tokens"].back()["special"] = false;
  file["added_tokens"].back()["normalized"] = false;
  EXPECT_EQ(read(file).entries[300].type, TokenType::user_defined);
  file["added_tokens"].back()["normalized"] = true;
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"split", false}};
  EXPECT_EQ(read(file).entries[300].text, "<tool>") << "unchanged by normalisation";
}

TEST(TokenizerJsonTest, NamesFeaturesWithoutGgufEquivalent) {
  const std::pair<json, const char*> changes[] = {
      {{{"model", {{"type", "WordPiece"}}}}, "WordPiece"},
      {{{"model", {{"dropout", 0.1}}}}, "dropout"},
      {{{"model", {{"end_of_word_suffix", "</w>"}}}}, "end_of_word_suffix"},
      {{{"model", {{"ignore_merges", true}}}}, "ignore_merges"},
      {{{"normalizer", {{"type", "NFKC"}}}}, "NFKC"},
      {{{"normalizer", {{"type", "Lowercase"}}}}, "Lowercase"},
      {{{"pre_tokenizer", split_at("\\w+")}}, "\\w+"},
      {{{"pre_tokenizer", {{"type", "Whitespace"}}}}, "Whitespace"},
      {{{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", true}}}},
       "add_prefix_space"},
      {{{"post_processor", {{"type", "RobertaProcessing"}}}}, "RobertaProcessing"},
      {{{"added_tokens", {{{"id", 266}, {"content", "<x>"}, {"rstrip", true}}}}}, "rstrip"},
      {{{"added_tokens", {{{"id", 266}, {"content", "<x>"}, {"single_word", true}}}}},
       "single_word"},
  };
  for (const auto& [change, named] : changes) {
    json file = byte_level();
    file.merge_patch(change);
    expect_error(file, Errc::unsupported, named);
  }
}

// SentencePiece would merge in another order than these specify.
TEST(TokenizerJsonTest, RefusesMergesWithoutEquivalentScores) {
  json file = sentencepiece();
  json& merges = file["model"]["merges"];
  merges.push_back(merges[0]);
  expect_error(file, Errc::unsupported, "do not order");
  merges.erase(merges.size() - 1);
  merges.erase(0);
  expect_error(file, Errc::unsupported, "lacks a merge");
}

TEST(TokenizerJsonTest, RefusesDamagedFiles) {
  const std::pair<json, const char*> changes[] = {
      {{{"model", nullptr}}, "the model is missing"},
      {{{"model", {{"vocab", nullptr}}}}, "no vocabulary"},
      {{{"model", {{"merges", nullptr}}}}, "no merges"},
      {{{"model", {{"merges", {"ab"}}}}}, "not a merge"},
      {{{"model", {{"merges", {"a zz"}}}}}, "zz"},
      {{{"model", {{"merges", {1}}}}}, "merge 0"},
      {{{"model", {{"vocab", {{"a", 400}}}}}}, "below"},
      {{{"model", {{"vocab", {{"a", -1}}}}}}, "below"},
      {{{"model", {{"vocab", {{"b", 97}}}}}}, "two entries"},
      {{{"added_tokens", {{{"content", "x"}}}}}, "no id"},
      {{{"added_tokens", {{{"id", 300}, {"content", "the"}}}}}, "twice"},
      {{{"added_tokens", {1}}}, "not an object"},
      {{{"normalizer", {{"type", nullptr}}}}, "no type"},
      {{{"pre_tokenizer", {{"type", "Sequence"}}}}, "pretokenizers"},
      {{{"post_processor", {{"type", "TemplateProcessing"}}}}, "no template"},
  };
  for (const auto& [change, named] : changes) {
    json file = byte_level();
    file.merge_patch(change);
    expect_error(file, Errc::bad_file, named);
  }
}

}  // namespace
}  // namespace edgedraft
