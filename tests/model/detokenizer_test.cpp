#include <gtest/gtest.h>

#include "shared/model/tokenizer.h"
#include "shared/model/utf8.h"
#include "tests/model/tiny_tokenizer.h"

namespace edgedraft {
namespace {

class DetokenizerTest : public ::testing::Test {
 protected:
  DetokenizerTest() {
    test::RawGguf raw;
    vocabulary_.add_to(raw);
    bytes_ = raw.bytes();
    const auto file = GgufFile::parse(bytes_);
    auto tokenizer = Tokenizer::read(*file);
    tokenizer_ = std::make_unique<Tokenizer>(std::move(tokenizer.value()));
  }
  std::uint32_t id(const std::string& text) const { return vocabulary_.id(text); }

  test::TinyVocabulary vocabulary_;
  Bytes bytes_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(DetokenizerTest, HoldsBackIncompleteCharacters) {
  Detokenizer detokenizer(*tokenizer_, LeadingSpace::keep);
  EXPECT_EQ(detokenizer.push(id("<0xE2>")), "");
  EXPECT_EQ(detokenizer.push(id("<0x82>")), "");
  EXPECT_EQ(detokenizer.push(id("<0xAC>")), "€");
  EXPECT_EQ(detokenizer.push(id("the")), "the");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST_F(DetokenizerTest, ReplacesUnfinishedCharacters) {
  Detokenizer detokenizer(*tokenizer_, LeadingSpace::keep);
  EXPECT_EQ(detokenizer.push(id("<0xE2>")), "");
  EXPECT_EQ(detokenizer.push(id("the")), "\xEF\xBF\xBDthe");
  EXPECT_EQ(detokenizer.push(id("<0xF0>")), "");
  EXPECT_EQ(detokenizer.push(id("<0x9F>")), "");
  EXPECT_EQ(detokenizer.finish(), "\xEF\xBF\xBD");
}

TEST_F(DetokenizerTest, StripsLeadingSpaceOnly) {
  const std::vector<std::uint32_t> ids = {id("▁the"), id("▁cat")};
  EXPECT_EQ(decode(*tokenizer_, ids, LeadingSpace::strip), "the cat");
  EXPECT_EQ(decode(*tokenizer_, ids, LeadingSpace::keep), " the cat");
}

TEST_F(DetokenizerTest, HidesControlAndEndTokens) {
  const std::vector<std::uint32_t> ids = {1, id("▁the"), 2, id("<|end|>")};
  EXPECT_EQ(decode(*tokenizer_, ids, LeadingSpace::strip), "the");
}

TEST_F(DetokenizerTest, FinishResetsState) {
  Detokenizer detokenizer(*tokenizer_, LeadingSpace::strip);
  detokenizer.push(id("▁the"));
  detokenizer.finish();
  EXPECT_EQ(detokenizer.push(id("▁cat")), "cat");
}

// Output is whole characters for any input bytes.
TEST_F(DetokenizerTest, EveryBytePairGivesValidUtf8) {
  for (unsigned first = 0; first < 256; first += 3) {
    for (unsigned second = 0; second < 256; second += 5) {
      Detokenizer detokenizer(*tokenizer_, LeadingSpace::keep);
      std::string text = detokenizer.push(3 + first);
      text += detokenizer.push(3 + second);
      text += detokenizer.finish();
      ASSERT_FALSE(text.empty());
      ASSERT_TRUE(is_valid_utf8(text)) << first << " " << second;
    }
  }
}

TEST(Utf8Test, ReplacesMaximalSubparts) {
  // Example from the Unicode standard, table 3-8.
  std::string bytes = "\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64";
  EXPECT_EQ(take_whole_utf8(bytes), "a���b�c��d");
  EXPECT_EQ(bytes, "");
}

TEST(Utf8Test, RejectsSurrogatesOverlongFormsAndOutOfRange) {
  for (const char* text : {"\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
                           "\xF4\x90\x80\x80", "\xFE"}) {
    EXPECT_EQ(utf8_front(text).kind, Utf8Front::Kind::invalid);
  }
}

}  // namespace
}  // namespace edgedraft
