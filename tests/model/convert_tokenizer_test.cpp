#include <gtest/gtest.h>

#include <numeric>

#include "shared/model/chat_template.h"
#include "shared/model/gguf.h"
#include "shared/model/tokenizer.h"
#include "tests/model/convert_fixture.h"
#include "tests/model/hf_directory.h"
#include "tests/model/tiny_byte_bpe.h"

namespace edgedraft {
namespace {

using test::HfDirectory;
using test::RawGguf;

class ConvertTokenizerTest : public test::ConvertFixture {};

TEST_F(ConvertTokenizerTest, CopiesTokenizerAndChatTemplate) {
  const HfDirectory source;
  source.write_tokenizer(input_);
  const GgufFile file = converted(source, DType::f16);
  const auto tokenizer = Tokenizer::read(file).value();
  const test::TinyVocabulary vocabulary;
  EXPECT_EQ(tokenizer.vocabulary_count(), 300u) << "padded to the embedding";
  EXPECT_EQ(tokenizer.encode("the cat", Special::plain),
            (std::vector<std::uint32_t>{vocabulary.id("the"), vocabulary.id("▁cat")}));
  EXPECT_FALSE(tokenizer.adds_space_prefix());
  EXPECT_TRUE(tokenizer.add_bos());
  EXPECT_EQ(tokenizer.bos_id(), 1u);
  EXPECT_EQ(tokenizer.eos_id(), vocabulary.id("<|end|>"));
  EXPECT_TRUE(tokenizer.is_end(2)) << "second id of config.json";
  EXPECT_EQ(*chat_template_source(file), "{{ messages[0].content }}");
}

TEST_F(ConvertTokenizerTest, ConvertsTokenizerJson) {
  const test::TinyByteBpe tiny;
  nlohmann::json vocabulary = nlohmann::json::object();
  for (std::size_t i = 0; i < tiny.texts.size(); ++i) {
    if (tiny.types[i] == 1) vocabulary[tiny.texts[i]] = i;
  }
  const nlohmann::json file = {
      {"added_tokens",
       {{{"id", tiny.id("<|eot_id|>")}, {"content", "<|eot_id|>"}, {"special", true}}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", tiny.merges}}}};
  input_.write("tokenizer.json", file.dump());
  input_.write("tokenizer_config.json",
               R"({"bos_token": "<|eot_id|>", "add_bos_token": true, "chat_template": "x"})");
  HfDirectory source;
  source.config["eos_token_id"] = {65, 66, 67};
  const GgufFile gguf = converted(source, DType::f16);
  EXPECT_EQ(*gguf.get_string("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(*gguf.get_string("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(gguf.get_strings("tokenizer.ggml.merges")->size(), tiny.merges.size());
  EXPECT_EQ(gguf.find_value("tokenizer.ggml.scores"), nullptr);
  const auto tokenizer = Tokenizer::read(gguf).value();
  EXPECT_EQ(tokenizer.vocabulary_count(), 300u) << "padded to the embedding";
  EXPECT_EQ(tokenizer.encode("the cat", Special::plain),
            (std::vector<std::uint32_t>{tiny.id("the"), tiny.id("Ġcat")}));
  EXPECT_TRUE(tokenizer.add_bos());
  EXPECT_EQ(tokenizer.bos_id(), tiny.id("<|eot_id|>"));
  EXPECT_EQ(tokenizer.eos_id(), 65u);
  for (const std::uint32_t end : {65u, 66u, 67u}) EXPECT_TRUE(tokenizer.is_end(end));
  EXPECT_EQ(*chat_template_source(gguf), "x");
}

TEST_F(ConvertTokenizerTest, NamedPreTokenizerReplacesTheFiles) {
  const test::TinyByteBpe tiny;
  RawGguf raw;
  raw.add_string("general.architecture", "llama");
  tiny.add_to(raw, "unheard-of");
  const auto path = input_.write("m.gguf", raw.bytes());
  ConvertOptions options{.input = path, .output = output_ / "m.gguf"};
  options.pre = "none";
  EXPECT_TRUE(fails_with(convert_model(options), Errc::unsupported, "'none'"));
  options.pre = "tekken";
  ASSERT_TRUE(convert_model(options));
  const GgufFile file = GgufFile::open(options.output).value();
  EXPECT_EQ(*file.get_string("tokenizer.ggml.pre"), "tekken");
  EXPECT_TRUE(Tokenizer::read(file));

  HfDirectory source;
  source.write_tokenizer(input_);
  source.write(input_);
  options.input = input_.path();
  EXPECT_TRUE(fails_with(convert_model(options), Errc::unsupported, "remove --pre"))
      << "SentencePiece";
}

// llama.cpp has keys for only three.
TEST_F(ConvertTokenizerTest, KeepsEveryEndId) {
  HfDirectory source;
  source.tokenizer_config.erase("eos_token");
  source.config["eos_token_id"] = {2, 270, 271};
  source.write_tokenizer(input_);
  EXPECT_EQ(converted(source, DType::f16).find_value("edgedraft.tokenizer.end_ids"), nullptr);

  input_.write("generation_config.json", R"({"eos_token_id": [2, 272, 299]})");
  const GgufFile file = converted(source, DType::f16);
  EXPECT_EQ(*file.get_u32("tokenizer.ggml.eos_token_id"), 2u);
  EXPECT_EQ(*file.get_u32("tokenizer.ggml.eot_token_id"), 270u);
  EXPECT_EQ(*file.get_u32("tokenizer.ggml.eom_token_id"), 271u);
  EXPECT_EQ(*file.get_i32s("edgedraft.tokenizer.end_ids"),
            (std::vector<std::int32_t>{2, 270, 271, 272, 299}));
  const auto tokenizer = Tokenizer::read(file).value();
  for (const std::uint32_t end : {2u, 270u, 271u, 272u, 299u}) {
    EXPECT_TRUE(tokenizer.is_end(end)) << end;
  }
  EXPECT_FALSE(tokenizer.is_end(273));
}

TEST_F(ConvertTokenizerTest, RefusesIdsOutsideTheVocabularyAndTooManyEnds) {
  HfDirectory source;
  source.tokenizer_config.erase("bos_token");
  source.write_tokenizer(input_);
  source.config["eos_token_id"] = {2, 300};
  expect_error(source, Errc::bad_file, "eos_token_id is 300, outside the vocabulary of 300");
  std::vector<std::uint32_t> ids(257);
  std::iota(ids.begin(), ids.end(), 0u);
  source.config["eos_token_id"] = ids;
  expect_error(source, Errc::bad_file, "eos_token_id lists more than 256");
  source = {};
  source.config["bos_token_id"] = 300;
  expect_error(source, Errc::bad_file, "bos_token_id is 300");
  // Repeating one token costs as much as listing many.
  source = {};
  const std::vector<std::uint32_t> same(257, 2);
  input_.write("generation_config.json", nlohmann::json{{"eos_token_id", same}}.dump());
  expect_error(source, Errc::bad_file, "generation_config.json: eos_token_id lists more than 256");
}

TEST_F(ConvertTokenizerTest, AddsTokensListedInConfiguration) {
  HfDirectory source;
  source.tokenizer_config["added_tokens_decoder"] = {
      {"0", {{"content", "<unk>"}, {"special", true}}},
      {"1", {{"content", "<s>"}, {"special", true}}},
      {"290", {{"content", "<|tool|>"}, {"special", true}}},
      {"291", {{"content", "<|code|>"}, {"special", false}}}};
  source.write_tokenizer(input_);
  const GgufFile file = converted(source, DType::f16);
  const auto tokenizer = Tokenizer::read(file).value();
  EXPECT_EQ(tokenizer.token_type(290), TokenType::control);
  EXPECT_EQ(tokenizer.token_type(291), TokenType::user_defined);
  EXPECT_EQ(tokenizer.encode("<|tool|>", Special::parse), std::vector<std::uint32_t>{290});
}

TEST_F(ConvertTokenizerTest, AddsTokensOfAddedTokensJson) {
  const auto count = static_cast<std::uint32_t>(test::TinyVocabulary().texts.size());
  const nlohmann::json added = {{"<s>", 1}, {"<|im_end|>", count}, {"<|im_start|>", count + 2}};
  HfDirectory source;
  source.write_tokenizer(input_);
  input_.write("added_tokens.json", added.dump());
  const auto older = Tokenizer::read(converted(source, DType::f16)).value();
  EXPECT_EQ(older.token_text(count), "<|im_end|>");
  EXPECT_EQ(older.token_type(count), TokenType::user_defined);
  EXPECT_EQ(older.token_type(count + 1), TokenType::unused) << "gap";
  EXPECT_EQ(older.token_type(count + 2), TokenType::user_defined);
  EXPECT_EQ(older.token_type(1), TokenType::control) << "a special piece stays special";
  EXPECT_TRUE(older.is_end(count));
  EXPECT_EQ(older.encode("<|im_start|>the<|im_end|>", Special::parse),
            (std::vector<std::uint32_t>{count + 2, test::TinyVocabulary().id("the"), count}));

  // tokenizer_config.json takes precedence.
  source.tokenizer_config["added_tokens_decoder"] = {
      {std::to_string(count), {{"content", "<|im_end|>"}, {"special", true}}}};
  source.write_tokenizer(input_);
  const auto newer = Tokenizer::read(converted(source, DType::f16)).value();
  EXPECT_EQ(newer.token_type(count), TokenType::control);
  EXPECT_EQ(newer.token_type(count + 2), TokenType::user_defined);
}

TEST_F(ConvertTokenizerTest, RefusesDamagedTokenLists) {
  const HfDirectory source;
  source.write_tokenizer(input_);
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "not a JSON object"},
      {R"({"<|x|>": -1})", "no id"},
      {R"({"<|x|>": 280.0})", "no id"},
      {R"({"<|x|>": "280"})", "no id"},
      {R"({"<|x|>": null})", "no id"},
      {R"({"": 280})", "not the text of a token"},
      {R"({"a\u0000": 280})", "not the text of a token"},
      {R"({"<|x|>": 5})", "\"<|x|>\" has the id of \"<0x02>\""},
      {R"({"the": 280})", "\"the\" has the id 280"},
      {R"({"<|x|>": 280, "<|y|>": 280})", "\"<|y|>\" has the id of \"<|x|>\""},
  };
  for (const auto& [list, named] : cases) {
    input_.write("added_tokens.json", list);
    expect_error(source, Errc::bad_file, named);
    expect_error(source, Errc::bad_file, "added_tokens.json");
  }
}

// Llama 2 folders have {"<pad>": 32000} beside a vocabulary of 32,000.
TEST_F(ConvertTokenizerTest, OmitsAddedTokensWithoutEmbeddingRow) {
  HfDirectory source;
  source.tokenizer_config["added_tokens_decoder"] = {
      {"300", {{"content", "<pad>"}, {"special", true}}},
      {"301", {{"content", "<far>"}, {"special", true}}}};
  source.write_tokenizer(input_);
  input_.write("added_tokens.json", R"({"<pad>": 300})");
  source.write(input_);
  std::string said;
  const auto done = convert_model({.input = input_.path(),
                                   .output = output_ / "m.gguf",
                                   .type = DType::f16,
                                   .on_notice = [&](const std::string& what) { said = what; }});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_NE(said.find("without a row in the model: \"<far>\", \"<pad>\""), std::string::npos)
      << said;
  const auto tokenizer = Tokenizer::read(GgufFile::open(output_ / "m.gguf").value()).value();
  EXPECT_EQ(tokenizer.vocabulary_count(), 300u);
  EXPECT_EQ(tokenizer.encode("<pad>", Special::parse), tokenizer.encode("<pad>", Special::plain));
}

TEST_F(ConvertTokenizerTest, RefusesAddedTokensThatStripNeighbours) {
  for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
    HfDirectory source;
    source.tokenizer_config["added_tokens_decoder"] = {{"290", {{"content", "<|x|>"}}}};
    source.tokenizer_config["added_tokens_decoder"]["290"][flag] = true;
    source.write_tokenizer(input_);
    expect_error(source, Errc::unsupported, std::string("<|x|> with ") + flag);
  }
}

// A tokenizer.model that is not "legacy" uses the rule "first".
TEST_F(ConvertTokenizerTest, ConfigurationDeterminesSpaceRule) {
  const test::TinyVocabulary tiny;
  struct Case {
    const char* changes;  // null removes a key
    const char* rule;     // null: the file names no rule
    bool adds;
    std::vector<std::uint32_t> ids;  // ids of "<s>the"
  };
  const Case cases[] = {
      {R"({"add_prefix_space": null})", nullptr, true, {1, tiny.id("▁the")}},
      {R"({"add_prefix_space": true, "legacy": true})", nullptr, true, {1, tiny.id("▁the")}},
      {R"({"add_prefix_space": null, "legacy": false})", "first", true, {1, tiny.id("the")}},
      {R"({"add_prefix_space": true, "legacy": false})", "first", true, {1, tiny.id("the")}},
      {R"({"legacy": false})", nullptr, false, {1, tiny.id("the")}},
  };
  for (const Case& c : cases) {
    HfDirectory source;
    source.tokenizer_config.merge_patch(nlohmann::json::parse(c.changes));
    source.write_tokenizer(input_);
    const GgufFile file = converted(source, DType::f16);
    const auto rule = file.get_string("edgedraft.tokenizer.space_prefix");
    EXPECT_EQ(rule ? *rule : "", c.rule == nullptr ? "" : c.rule) << c.changes;
    EXPECT_EQ(*file.get_bool("tokenizer.ggml.add_space_prefix"), c.adds) << c.changes;
    const auto tokenizer = Tokenizer::read(file).value();
    EXPECT_EQ(tokenizer.encode("<s>the", Special::parse), c.ids) << c.changes;
  }
}

// As in Llama 2 folders: "legacy" applies to readers of tokenizer.model.
TEST_F(ConvertTokenizerTest, TokenizerJsonOverridesSpaceRule) {
  const test::TinyVocabulary tiny;
  struct Case {
    const char* file;
    const char* rule;  // empty: the output names no rule
    std::vector<std::uint32_t> ids;
  };
  const Case cases[] = {
      {R"({"normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}})",
       "",
       {1, tiny.id("▁the")}},
      {R"({"pre_tokenizer":
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}})",
       "always",
       {1, tiny.id("▁the")}},
      // A file with an unknown step is ignored as a whole: "legacy" decides.
      {R"({"normalizer": {"type": "Lowercase"}, "pre_tokenizer":
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}})",
       "first",
       {1, tiny.id("the")}},
  };
  for (const Case& c : cases) {
    HfDirectory source;
    source.tokenizer_config.merge_patch({{"add_prefix_space", nullptr}, {"legacy", false}});
    source.write_tokenizer(input_);
    input_.write("tokenizer.json", c.file);
    const GgufFile file = converted(source, DType::f16);
    const auto rule = file.get_string_or("edgedraft.tokenizer.space_prefix", "").value();
    EXPECT_EQ(rule, c.rule) << c.file;
    const auto tokenizer = Tokenizer::read(file).value();
    EXPECT_EQ(tokenizer.encode("<s>the", Special::parse), c.ids) << c.file;
  }
}

// Llama 3's tokenizer.model lists its tokens in base64 with their ranks.
TEST_F(ConvertTokenizerTest, PrefersTokenizerJsonToTiktokenModel) {
  const test::TinyByteBpe tiny;
  nlohmann::json vocabulary = nlohmann::json::object();
  for (std::size_t i = 0; i < tiny.texts.size(); ++i) vocabulary[tiny.texts[i]] = i;
  const nlohmann::json file = {
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", tiny.merges}}}};
  input_.write("tokenizer.model", "IQ== 0\nIg== 1\nIw== 2\n");
  expect_error({}, Errc::bad_file, "tiktoken");
  expect_error({}, Errc::bad_file, "tokenizer.json");
  input_.write("tokenizer.json", file.dump());
  const auto tokenizer = Tokenizer::read(converted({}, DType::f16)).value();
  EXPECT_EQ(tokenizer.encode("the cat", Special::plain),
            (std::vector<std::uint32_t>{tiny.id("the"), tiny.id("Ġcat")}));
}

TEST_F(ConvertTokenizerTest, PrefersSeparateTemplateFile) {
  HfDirectory source;
  source.write_tokenizer(input_);
  input_.write("chat_template.jinja", "from the file");
  EXPECT_EQ(*chat_template_source(converted(source, DType::f16)), "from the file");
}

TEST_F(ConvertTokenizerTest, SelectsDefaultOfSeveralTemplates) {
  HfDirectory source;
  source.tokenizer_config["chat_template"] = {{{"name", "tool"}, {"template", "no"}},
                                              {{"name", "default"}, {"template", "yes"}}};
  source.write_tokenizer(input_);
  EXPECT_EQ(*chat_template_source(converted(source, DType::f16)), "yes");
}

// Padding a vocabulary takes memory, so its size must match the embedding.
TEST_F(ConvertTokenizerTest, ChecksEmbeddingBeforeTokenizer) {
  HfDirectory source;
  source.config["vocab_size"] = 1u << 24;
  source.write_tokenizer(input_);
  expect_error(source, Errc::bad_file, "model.embed_tokens.weight");
  input_.write("tokenizer.model", "\xFF\xFF");  // unreadable
  expect_error(source, Errc::bad_file, "model.embed_tokens.weight");
}

TEST_F(ConvertTokenizerTest, RefusesUnconvertibleTokenizers) {
  input_.write("vocab.json", "{}");
  expect_error({}, Errc::unsupported, "tokenizer.json");
  input_.write("tokenizer.model", "\xFF\xFF");
  expect_error({}, Errc::bad_file, "tokenizer.model");
  input_.write("tokenizer.json", "{}");
  expect_error({}, Errc::bad_file, "tokenizer.json");
  HfDirectory source;
  source.write_tokenizer(input_);
  source.config["vocab_size"] = 200;
  source.tensors["lm_head.weight"] = source.tensors["model.embed_tokens.weight"] = {200, 32};
  expect_error(source, Errc::mismatch, "200");
}

}  // namespace
}  // namespace edgedraft
