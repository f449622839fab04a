#include <gtest/gtest.h>

#include <string>

#include "client/commands/commands.h"
#include "shared/drafting/mtp/mtp_model.h"
#include "tests/support/expect.h"
#include "tests/support/family_files.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::client {
namespace {

class SplitCommandTest : public ::testing::Test {
 protected:
  SplitCommandOptions options() const {
    return {.model = model_, .output = directory_ / "drafter.gguf"};
  }
  std::filesystem::path family(const std::string& name) const {
    return directory_.write(name + ".gguf",
                            testing::unzipped(testing::kFamilies / (name + ".gguf.gz")));
  }
  void expect_refused(const SplitCommandOptions& o, const std::string& named) const {
    EXPECT_TRUE(fails_with(run_split(o), Errc::usage, named)) << named;
    EXPECT_FALSE(std::filesystem::exists(o.output));
  }
  FeatureModel drafter() {
    return read_mtp(file_.emplace(*GgufFile::open(options().output))).value();
  }

  test::TemporaryDirectory directory_;
  std::filesystem::path model_ = family("qwen35");
  std::optional<GgufFile> file_;
};

TEST_F(SplitCommandTest, KeepsTheMostFrequentTokensOfTheTexts) {
  SplitCommandOptions o = options();
  o.head = "40";
  o.texts = {directory_.write("a.txt", "zzzz zzzz"), directory_.write("b.txt", "~~~~ ~~~~")};
  ASSERT_TRUE(run_split(o));
  const auto tokenizer = Tokenizer::read(*GgufFile::open(model_)).value();
  const auto counted = drafter().sizes.draft_tokens;
  EXPECT_EQ(counted.size(), 40u);
  for (const char* text : {"zzzz", "~~~~"}) {
    for (const std::uint32_t token : tokenizer.encode(text, Special::plain)) {
      EXPECT_TRUE(std::ranges::binary_search(counted, token)) << text;
    }
  }
}

TEST_F(SplitCommandTest, KeepsTheFirstTokensWithoutText) {
  SplitCommandOptions o = options();
  o.head = "64";
  ASSERT_TRUE(run_split(o));
  const auto tokens = drafter().sizes.draft_tokens;
  EXPECT_EQ(tokens.size(), 64u);
  EXPECT_EQ(tokens[20], 20u);
}

TEST_F(SplitCommandTest, ReplacesAFileOnlyIfForced) {
  SplitCommandOptions o = options();
  ASSERT_TRUE(run_split(o));
  EXPECT_TRUE(drafter().sizes.draft_tokens.empty());
  EXPECT_TRUE(fails_with(run_split(o), Errc::usage, "--force"));
  o.force = true;
  EXPECT_TRUE(run_split(o));
  o.model = o.output;
  o.output = directory_ / "again.gguf";
  expect_refused(o, "is a drafter already");
}

TEST_F(SplitCommandTest, NamesTheDraftersThatFitAModelWithoutABlock) {
  SplitCommandOptions o = options();
  o.model = family("qwen3");
  expect_refused(o, "brings no drafter");
  expect_refused(o, "ngram");
  expect_refused(o, "eagle, medusa, independent");
}

TEST_F(SplitCommandTest, NamesTheRemedyForInvalidOptions) {
  SplitCommandOptions o = options();
  o.texts = {model_};
  expect_refused(o, "--head N");
  o.texts.clear();
  for (const char* head : {"0", "-1", "32kk", "many", "99999999999999999999", "16777217"}) {
    o.head = head;
    expect_refused(o, "--head " + std::string(head));
  }
  o.head = "1k";  // more than the vocabulary has
  expect_refused(o, "its whole vocabulary");
  o.head = "1";
  expect_refused(o, "control tokens are always kept");
  o = options();
  o.model = directory_.path();
  expect_refused(o, "edgedraft convert");
  o.model.clear();
  expect_refused(o, "the model is missing");
}

}  // namespace
}  // namespace edgedraft::client
