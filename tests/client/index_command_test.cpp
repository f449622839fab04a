#include "client/commands/commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "client/commands/client_options.h"
#include "client/commands/corpus_text.h"
#include "client/engine/drafter_selection.h"
#include "shared/drafting/index/corpus_index.h"
#include "shared/model/gguf.h"
#include "shared/model/tokenizer.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::client {
namespace {

using Texts = std::vector<std::string>;

class CorpusTextTest : public ::testing::Test {
 protected:
  Texts read(const std::string& name, const std::string& content, const CorpusReader& reader = {}) {
    Texts texts;
    const auto done = read_documents(directory_.write(name, content), reader,
                                     [&](std::string_view text) -> Result<void> {
                                       texts.emplace_back(text);
                                       return {};
                                     });
    if (!done) return {std::string(to_string(done.error().code)), done.error().message};
    return texts;
  }

  test::TemporaryDirectory directory_;
};

TEST_F(CorpusTextTest, SplitsPlainTextAsConfigured) {
  const std::string text = "one\ntwo\n\nthree\n\n\n\nfour";
  EXPECT_EQ(read("a.txt", text), Texts{text});
  EXPECT_EQ(read("a.txt", text, {.split = CorpusSplit::lines}),
            (Texts{"one", "two", "three", "four"}));
  EXPECT_EQ(read("a.txt", text, {.split = CorpusSplit::paragraphs}),
            (Texts{"one\ntwo", "three", "four"}));
  EXPECT_EQ(read("a.txt", ""), Texts{});
}

TEST_F(CorpusTextTest, SplitsLongTextAtLinesWordsOrCharactersWithoutLoss) {
  const std::string lines = [] {
    std::string text;
    while (text.size() < 5 * kDocumentBytesMax) text += "a line of words\n";
    return text;
  }();
  std::string words = lines;
  std::ranges::replace(words, '\n', ' ');
  std::string letters;
  while (letters.size() < 3 * kDocumentBytesMax) letters += "ü";
  letters.insert(0, "a");
  for (const auto& [text, end] :
       {std::pair(lines, "\n"), std::pair(words, " "), std::pair(letters, "ü")}) {
    for (const CorpusSplit split : {CorpusSplit::file, CorpusSplit::paragraphs}) {
      std::string all;
      for (const std::string& document : read("long.txt", text, {.split = split})) {
        EXPECT_LE(document.size(), kDocumentBytesMax);
        EXPECT_TRUE(document.ends_with(end));
        all += document;
      }
      EXPECT_EQ(all, text);
    }
  }
}

TEST_F(CorpusTextTest, ReadsJsonLinesFieldAndNamesInvalidLine) {
  const std::string lines =
      "{\"text\": \"one\\ntwo\"}\n\n{\"text\": \"\"}\n{\"text\": \"ü\", \"x\": 1}";
  EXPECT_EQ(read("a.jsonl", lines), (Texts{"one\ntwo", "ü"}));
  for (const char* bad : {"{\"other\": \"a\"}", "{\"text\": 1}", "[]", "{\"text\": \"a", "\xff"}) {
    const Texts refused = read("a.jsonl", "{\"text\": \"a\"}\n" + std::string(bad) + "\n");
    ASSERT_EQ(refused.size(), 2u) << bad;
    EXPECT_EQ(refused[0], "bad_file");
    EXPECT_TRUE(contains(refused[1], "a.jsonl"));
    EXPECT_TRUE(contains(refused[1], "line 2"));
  }
  EXPECT_EQ(read("a.jsonl", "{\"other\": \"a\"}", {.field = "other"}), Texts{"a"});
}

class IndexCommandTest : public ::testing::Test {
 protected:
  IndexCommandTest() {
    options_.corpus = {directory_.write("dog.txt", "The dog has a red ball. The dog is glad.\n")};
    options_.model = EDGEDRAFT_MODELS "/target.gguf";
    options_.output = directory_ / "made.index";
    options_.is_public = true;
    options_.threads = 1;
  }

  void expect_error(const IndexCommandOptions& options, Errc code, const std::string& named) {
    EXPECT_TRUE(fails_with(run_index(options), code, named)) << named;
  }

  Texts documents() {
    const CorpusIndex index = CorpusIndex::open(options_.output).value();
    const auto tokenizer = Tokenizer::read(GgufFile::open(options_.model).value()).value();
    Texts texts;
    for (std::uint32_t suffix = 0; suffix < index.facts().suffix_count; ++suffix) {
      texts.push_back(decode(tokenizer, index.tokens(suffix, 0, 1000), LeadingSpace::strip));
    }
    return texts;
  }
  bool holds(const std::string& text) {
    const Texts texts = documents();
    return std::ranges::find(texts, text) != texts.end();
  }

  test::TemporaryDirectory directory_;
  IndexCommandOptions options_;
};

TEST_F(IndexCommandTest, WritesAndChecksIndexOfText) {
  ASSERT_TRUE(run_index(options_));
  EXPECT_TRUE(holds("The dog has a red ball. The dog is glad.\n"));
  EXPECT_TRUE(CorpusIndex::open(options_.output)->facts().is_public);
  IndexCommandOptions check;
  check.check = options_.output;
  EXPECT_TRUE(run_index(check));
  std::fstream file(options_.output, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(200);
  file.put('\x77');
  file.close();
  expect_error(check, Errc::bad_file, "made.index");
}

TEST_F(IndexCommandTest, ReplacesFileOnlyWithForceAndAfterSuccess) {
  directory_.write("made.index", "precious");
  expect_error(options_, Errc::usage, "--force");
  options_.force = true;
  ASSERT_TRUE(run_index(options_));
  options_.corpus.push_back(directory_.write("bad.jsonl", "{}\n"));
  expect_error(options_, Errc::bad_file, "bad.jsonl");
  EXPECT_TRUE(CorpusIndex::open(options_.output)) << "the old index stays intact";
  for (const auto& read : {options_.corpus.front(), options_.model}) {
    options_.output = read;
    expect_error(options_, Errc::usage, "also an input file");
  }
  EXPECT_EQ(directory_.file_count(), 3u);
}

TEST_F(IndexCommandTest, NamesInvalidOption) {
  expect_error({}, Errc::usage, "texts");
  const auto refuses = [&](auto change, const std::string& named, Errc code = Errc::usage) {
    auto changed = options_;
    change(changed);
    expect_error(changed, code, named);
  };
  const std::string empty = directory_.write("empty.txt", "");
  refuses([](auto& o) { o.model.clear(); }, "--model");
  refuses([](auto& o) { o.output.clear(); }, "-o");
  refuses([](auto& o) { o.corpus = {"/nowhere.txt"}; }, "/nowhere.txt", Errc::io);
  refuses([&](auto& o) { o.corpus = {empty}; }, "empty");
  refuses([](auto& o) { o.keep_tokens = 1; }, "--keep-tokens");
  refuses(
      [](auto& o) {
        o.keep_tokens = 100;
        o.window = 1 << 20;
      },
      "--window");
  refuses([](auto& o) { o.keep = "likeliest"; }, "--keep-tokens N");
  refuses([](auto& o) { o.keep = "random"; }, "--keep-tokens N");
  refuses([](auto& o) { o.check = "x.index"; }, "--check");
  EXPECT_FALSE(std::filesystem::exists(options_.output));
  // Checking an index takes no option for building one.
  options_ = {.check = "x.index"};
  refuses([](auto& o) { o.keep = "random"; }, "--check");
  refuses([](auto& o) { o.keep_tokens = 100; }, "--check");
  refuses([](auto& o) { o.is_public = true; }, "--check");
}

TEST_F(IndexCommandTest, KeepsDocumentsLikeliestUnderTarget) {
  std::string lines;
  // Longer than the others, so that it does not fit into space that they leave.
  const std::string likely =
      "Once upon a time there was a little dog. The dog had a red ball. The dog liked to play with "
      "the red ball in the park. One day, the dog saw a big cat.";
  for (int i = 0; i < 30; ++i) {
    std::string noise;
    for (int k = 0; k < 40; ++k) noise += static_cast<char>('a' + (i * 7 + k * k * (i + 3)) % 26);
    lines += noise + "\n";
    if (i == 17) lines += likely + "\n";
  }
  options_.corpus = {directory_.write("lines.txt", lines)};
  options_.split = "lines";
  options_.keep_tokens = 200;
  ASSERT_TRUE(run_index(options_));
  EXPECT_TRUE(holds(likely));
  EXPECT_LE(CorpusIndex::open(options_.output)->facts().suffix_count, 200u);

  // Random choice finds it with some of many seeds, and each seed repeats its result.
  options_.keep = "random";
  options_.force = true;
  std::uint32_t kept = 0;
  for (options_.seed = 0; options_.seed < 12; ++options_.seed) {
    ASSERT_TRUE(run_index(options_));
    const Texts once = documents();
    ASSERT_TRUE(run_index(options_));
    EXPECT_EQ(documents(), once);
    kept += holds(likely);
  }
  EXPECT_LT(kept, 6u);
}

// Even if it is the likeliest.
TEST_F(IndexCommandTest, SkipsDocumentThatDoesNotFit) {
  std::string likeliest;
  for (int i = 0; i < 30; ++i) likeliest += "The dog has a red ball. ";
  const std::string fits = "Once upon a time there was a little dog.";
  options_.corpus = {directory_.write("lines.txt", likeliest + "\n" + fits + "\n")};
  options_.split = "lines";
  options_.keep_tokens = 60;
  ASSERT_TRUE(run_index(options_));
  EXPECT_TRUE(holds(fits));
  EXPECT_LE(CorpusIndex::open(options_.output)->facts().suffix_count, 60u);
}

TEST_F(IndexCommandTest, RefusesNonPublicIndexForOnlineDrafting) {
  const auto refusal = [&](OptionValues o) {
    o.config.drafter.bundles = {EDGEDRAFT_MODELS "/moa-tli0.gguf"};
    o.config.drafter.indexes = {options_.output};
    const auto config = check_answer_options(o);
    if (config) return std::string();
    EXPECT_EQ(config.error().code, Errc::usage);
    return config.error().message;
  };
  const auto drafting = [](const char* kind, std::vector<std::string> merge = {}) {
    return OptionValues{.config = {.drafter = {.kind = kind, .merge = std::move(merge)}}};
  };
  ASSERT_TRUE(run_index(options_));
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal(drafting("retrieval")), "");
  EXPECT_EQ(refusal(drafting("pld", {"retrieval"})), "");
  EXPECT_TRUE(contains(refusal(drafting("pld")), "--index"));
  EXPECT_TRUE(contains(refusal(drafting("")), "--index"));
  EXPECT_TRUE(contains(refusal({.plain = true}), "--index"));
  options_.is_public = false;
  options_.force = true;
  ASSERT_TRUE(run_index(options_));
  EXPECT_TRUE(contains(refusal({}), "public"));
}

TEST_F(IndexCommandTest, MergesRetrievalOnlyWithIndex) {
  ASSERT_TRUE(run_index(options_));
  const AnswersExpected answers{.server = "cloud:7420", .breadth = 8, .tokens = 96};
  DrafterWishes wishes{.bundles = {EDGEDRAFT_MODELS "/moa-tli0.gguf"},
                       .kind = {},
                       .merge = {"ngram", "retrieval"},
                       .indexes = {options_.output}};
  const auto both = select_drafter(wishes, BundleUse::draft, nullptr, answers);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->bundle.drafter_kind(), "moa+ngram+retrieval");
  wishes.indexes.clear();
  const auto none = select_drafter(wishes, BundleUse::draft, nullptr, answers);
  ASSERT_FALSE(none);
  EXPECT_TRUE(contains(none.error().message, "--index"));
}

}  // namespace
}  // namespace edgedraft::client
