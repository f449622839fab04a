#include "shared/model/draft_vocabulary.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shared/drafting/bundle_conversion.h"
#include "shared/drafting/moa/moa_tensors.h"
#include "shared/model/convert/reduced_head.h"
#include "shared/model/fingerprint.h"
#include "tests/model/hf_directory.h"
#include "tests/model/raw_decoder.h"
#include "tests/support/expect.h"
#include "tests/support/fixtures.h"

namespace edgedraft {
namespace {

using test::HfDirectory;
using test::RawGguf;
using test::TemporaryDirectory;
using test::TinyVocabulary;
using Tokens = std::vector<std::uint32_t>;

constexpr std::uint32_t kI32 = 5;

// A decoder of 5 tokens whose head has `rows` rows, with the given table.
RawGguf reduced_decoder(const std::vector<std::int32_t>& d2t, std::uint64_t rows) {
  RawGguf raw = test::raw_decoder();
  test::add_raw_tensor(raw, "output.weight", {8, rows});
  raw.add_numbers(std::string(kDraftVocabularyKey), kI32, d2t);
  return raw;
}

std::optional<Error> error_of(const RawGguf& raw) {
  const Bytes bytes = raw.bytes();
  const auto file = GgufFile::parse(bytes);
  if (!file) return file.error();
  const auto model = read_draft_decoder(*file);
  return model ? std::nullopt : std::optional(model.error());
}

void expect_bad(const RawGguf& raw, const std::string& named) {
  const auto error = error_of(raw);
  ASSERT_TRUE(error) << named;
  EXPECT_EQ(error->code, Errc::bad_file) << error->message;
  EXPECT_TRUE(contains(error->message, named));
}

TEST(DraftVocabularyTest, ReadsTokensOfHeadRows) {
  const Bytes bytes = reduced_decoder({0, 1, 2}, 3).bytes();
  const auto file = GgufFile::parse(bytes);
  const auto model = read_draft_decoder(*file).value();
  EXPECT_EQ(model.config.draft_tokens, (Tokens{0, 2, 4}));
  EXPECT_EQ(model.config.vocabulary_count, 5u);
  EXPECT_EQ(model.config.head_rows(), 3u);
  EXPECT_EQ(model.tensors.output->rows, 3u);
  EXPECT_EQ(to_d2t(model.config.draft_tokens), (std::vector<std::int32_t>{0, 1, 2}));
}

TEST(DraftVocabularyTest, AcceptsTableOfWholeVocabulary) {
  EXPECT_FALSE(error_of(reduced_decoder({0, 0, 0, 0, 0}, 5)));
}

TEST(DraftVocabularyTest, RejectsInvalidTables) {
  expect_bad(reduced_decoder({}, 1), "0 entries");
  expect_bad(reduced_decoder({0, 0, 0, 0, 0, 0}, 6), "6 entries");
  expect_bad(reduced_decoder({-1}, 1), "token -1");
  expect_bad(reduced_decoder({0, 4}, 2), "token 5");
  expect_bad(reduced_decoder({2147483647, 2147483647}, 2), "token 2147483647");
  expect_bad(reduced_decoder({2, 1}, 2), "token 2 twice");
  expect_bad(reduced_decoder({3, 0}, 2), "out of order");
}

TEST(DraftVocabularyTest, RejectsValuesOfOtherType) {
  const std::string key(kDraftVocabularyKey);
  RawGguf raw = test::raw_decoder();
  raw.add_u32(key, 3);
  expect_bad(raw, key);
  raw = test::raw_decoder();
  raw.add_strings(key, {"0"});
  expect_bad(raw, key);
  raw = test::raw_decoder();
  raw.add_numbers(key, 6, std::vector<float>{0.0f});
  expect_bad(raw, key);
}

TEST(DraftVocabularyTest, RequiresHeadRowPerEntry) {
  expect_bad(reduced_decoder({0, 1, 2}, 4), "output.weight");
  RawGguf tied = test::raw_decoder();
  tied.add_numbers(std::string(kDraftVocabularyKey), kI32, std::vector<std::int32_t>{0, 1});
  expect_bad(tied, "output.weight");
}

TEST(DraftVocabularyTest, ReducedDrafterIsRejectedAsTarget) {
  const Bytes bytes = reduced_decoder({0, 1, 2}, 3).bytes();
  const auto file = GgufFile::parse(bytes);
  EXPECT_TRUE(fails_with(read_decoder(*file), Errc::unsupported, "--bundle"));
}

// Choosing the tokens.
class ChooseDraftTokensTest : public ::testing::Test {
 protected:
  Result<DraftTokens> choose(std::string_view text, std::uint32_t count) {
    return choose_draft_tokens(tokenizer_,
                               {.texts = {directory_.write("corpus", text)}, .count = count});
  }
  std::uint32_t id(const std::string& text) const { return vocabulary_.id(text); }

  static Tokenizer read(const TinyVocabulary& vocabulary) {
    RawGguf raw;
    vocabulary.add_to(raw);
    const Bytes bytes = raw.bytes();
    return Tokenizer::read(GgufFile::parse(bytes).value()).value();
  }

  TemporaryDirectory directory_;
  TinyVocabulary vocabulary_;
  Tokenizer tokenizer_ = read(vocabulary_);
};

TEST_F(ChooseDraftTokensTest, KeepsControlTokensAndMostFrequent) {
  // <s>, </s> and <
  // end
  // > are always included; then the text's most frequent word.
  const auto chosen = choose("the the the cat the é", 4).value();
  EXPECT_EQ(chosen.tokens, (Tokens{1, 2, id("<|end|>"), id("\xE2\x96\x81the")}));
  const auto more = choose("the the the cat the cat é", 5);
  ASSERT_TRUE(more);
  EXPECT_EQ(more->tokens.back(), id("\xE2\x96\x81"
                                    "cat"));
}

TEST_F(ChooseDraftTokensTest, BreaksFrequencyTiesByLowestId) {
  const auto chosen = choose("the the", 6);
  ASSERT_TRUE(chosen);
  // Entries absent from the text follow the frequent ones: <unk>, then the bytes.
  EXPECT_EQ(chosen->tokens, (Tokens{0, 1, 2, 3, id("<|end|>"), id("\xE2\x96\x81the")}));
}

TEST_F(ChooseDraftTokensTest, ReportsTextCoverage) {
  const auto chosen = choose("the the the cat", 4);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->covered, 3u);
  EXPECT_EQ(chosen->corpus_tokens, tokenizer_.encode("the the the cat", Special::plain).size());
}

TEST_F(ChooseDraftTokensTest, ReadsTextsLongerThanOneBlock) {
  std::string text;
  while (text.size() < (std::size_t{5} << 19)) text += "the the cat\n";
  const auto lines = choose(text, 4);
  ASSERT_TRUE(lines);
  EXPECT_EQ(lines->tokens.back(), id("\xE2\x96\x81the"));
  std::ranges::replace(text, '\n', ' ');  // one line of 2.5 MB
  const auto line = choose(text, 4);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->tokens, lines->tokens);
}

TEST_F(ChooseDraftTokensTest, ErrorsNameOption) {
  const auto expect_error = [](const Result<DraftTokens>& chosen, Errc code,
                               const std::string& named) {
    EXPECT_TRUE(fails_with(chosen, code, named)) << named;
  };
  const std::uint32_t all = tokenizer_.vocabulary_count();
  EXPECT_TRUE(choose("the", all));
  expect_error(choose("the", all + 1), Errc::usage, "to " + std::to_string(all));
  expect_error(choose("the", 0), Errc::usage, "--draft-vocab 0");
  expect_error(choose("the", 2), Errc::usage, "from 3");
  expect_error(choose("", 10), Errc::usage, "no text");
  expect_error(choose("<|end|>", 10), Errc::usage, "no text");
  expect_error(choose_draft_tokens(tokenizer_, {.texts = {directory_ / "none"}, .count = 10}),
               Errc::io, "none");
  expect_error(choose_draft_tokens(tokenizer_, {.texts = {directory_.path()}, .count = 10}),
               Errc::io, "folder");
}

// Writing bundles.
class ReducedBundleTest : public ::testing::Test {
 protected:
  const std::filesystem::path fixtures_ = test::kFixtures / "moa";

  std::filesystem::path path(std::string_view name) const { return directory_ / name; }

  GgufFile bundle(const std::string& drafter, const std::string& name, const Tokens& tokens) {
    EXPECT_TRUE(convert_model(
        {.input = fixtures_ / "target", .output = path("target.gguf"), .type = DType::f16}));
    const auto made = make_bundle({.target = path("target.gguf"),
                                   .drafter = fixtures_ / drafter,
                                   .output = path(name),
                                   .type = DType::q8_0,
                                   .draft_tokens = tokens});
    EXPECT_TRUE(made) << made.error().message;
    return GgufFile::open(path(name)).value();
  }

  TemporaryDirectory directory_;
  const Tokens tokens_{1, 2, 5, 40, 95};
};

const GgufTensor& head_of(const GgufFile& file) {
  const GgufTensor* head = file.find_tensor("output.weight");
  return head != nullptr ? *head : *file.find_tensor("token_embd.weight");
}

void expect_rows_of(const GgufFile& reduced, const GgufFile& whole, const Tokens& tokens) {
  const GgufTensor& some = *reduced.find_tensor("output.weight");
  const GgufTensor& all = head_of(whole);
  ASSERT_EQ(some.rows(), tokens.size());
  ASSERT_EQ(some.type, all.type);
  const std::size_t row = all.bytes.size() / all.rows();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(some.bytes.subspan(i * row, row),
                                   all.bytes.subspan(tokens[i] * row, row)))
        << "token " << tokens[i];
  }
}

TEST_F(ReducedBundleTest, MoaBundleHoldsSelectedHeadRowsAndTable) {
  const GgufFile whole = bundle("moa-tli1", "whole.gguf", {});
  const GgufFile reduced = bundle("moa-tli1", "reduced.gguf", tokens_);
  const auto model = read_moa(reduced).value();
  EXPECT_EQ(model.config.draft_tokens, tokens_);
  EXPECT_EQ(model.config.vocabulary_count, 96u);
  EXPECT_TRUE(read_moa(whole)->config.draft_tokens.empty());
  expect_rows_of(reduced, whole, tokens_);
  EXPECT_EQ(reduced.find_tensor("token_embd.weight")->rows(), 96u);
  EXPECT_NE(model_fingerprint(reduced).value(), model_fingerprint(whole).value());
  EXPECT_EQ(target_fingerprint_of(reduced).value(), target_fingerprint_of(whole).value());
}

TEST_F(ReducedBundleTest, ReducingBundleEqualsBuildingReduced) {
  const GgufFile whole = bundle("moa-tli0", "whole.gguf", {});
  const GgufFile made = bundle("moa-tli0", "made.gguf", tokens_);
  const auto done = reduce_bundle(
      {.bundle = path("whole.gguf"), .output = path("r.gguf"), .draft_tokens = tokens_});
  ASSERT_TRUE(done) << done.error().message;
  const GgufFile reduced = GgufFile::open(path("r.gguf")).value();
  EXPECT_EQ(compute_model_fingerprint(reduced), compute_model_fingerprint(made));
  EXPECT_EQ(model_fingerprint(reduced).value(), compute_model_fingerprint(reduced));
}

TEST_F(ReducedBundleTest, TiedHeadOfIndependentDrafterBecomesTensor) {
  HfDirectory source;
  source.config["tie_word_embeddings"] = true;
  source.tensors.erase("lm_head.weight");
  const TemporaryDirectory folder;
  source.write(folder);
  source.write_tokenizer(folder);
  ASSERT_TRUE(
      convert_model({.input = folder.path(), .output = path("t.gguf"), .type = DType::f32}));
  const BundleOptions options{.target = path("t.gguf"),
                              .drafter = folder.path(),
                              .output = path("whole.gguf"),
                              .type = DType::q8_0};
  ASSERT_TRUE(make_bundle(options));
  BundleOptions some = options;
  some.output = path("reduced.gguf");
  some.draft_tokens = tokens_;
  ASSERT_TRUE(make_bundle(some));
  const GgufFile whole = GgufFile::open(path("whole.gguf")).value();
  const GgufFile reduced = GgufFile::open(path("reduced.gguf")).value();
  EXPECT_EQ(whole.find_tensor("output.weight"), nullptr);
  const auto model = read_draft_decoder(reduced).value();
  EXPECT_EQ(model.config.draft_tokens, tokens_);
  expect_rows_of(reduced, whole, tokens_);
}

TEST_F(ReducedBundleTest, RejectsReducedDraftersAndTargets) {
  bundle("moa-tli0", "reduced.gguf", tokens_);
  const auto twice = reduce_bundle(
      {.bundle = path("reduced.gguf"), .output = path("x.gguf"), .draft_tokens = {1, 2}});
  ASSERT_FALSE(twice);
  EXPECT_TRUE(contains(twice.error().message, "already reduced"));
  const auto target = reduce_bundle(
      {.bundle = path("target.gguf"), .output = path("x.gguf"), .draft_tokens = {1, 2}});
  EXPECT_TRUE(fails_with(target, Errc::usage, "--drafter"));
  EXPECT_FALSE(std::filesystem::exists(path("x.gguf")));
}

}  // namespace
}  // namespace edgedraft
