#include <gtest/gtest.h>

#include "shared/model/tokenizer.h"
#include "tests/model/tiny_plain_bpe.h"
#include "tests/support/expect.h"

namespace edgedraft {
namespace {

using test::RawGguf;
using test::TinyPlainBpe;
using Ids = std::vector<std::uint32_t>;

Result<Tokenizer> read_raw(const RawGguf& raw) {
  const Bytes bytes = raw.bytes();
  return Tokenizer::read(GgufFile::parse(bytes).value());
}

Result<Tokenizer> read_plain(const TinyPlainBpe& vocabulary) {
  RawGguf raw;
  vocabulary.add_to(raw);
  return read_raw(raw);
}

class PlainBpeTest : public ::testing::Test {
 protected:
  std::uint32_t id(const std::string& text) const { return vocabulary_.id(text); }
  Ids encode(const std::string& text) const { return tokenizer_.encode(text, Special::plain); }

  TinyPlainBpe vocabulary_;
  Tokenizer tokenizer_ = read_plain(vocabulary_).value();
};

TEST_F(PlainBpeTest, MergesAcrossSpaces) {
  EXPECT_EQ(encode("the cat"), Ids{id("the▁cat")});
  EXPECT_EQ(encode(" the"), Ids{id("▁the")});
  EXPECT_EQ(encode("the"), Ids{id("the")}) << "no space is added";
  EXPECT_EQ(decode(tokenizer_, encode(" the  cat"), LeadingSpace::strip), " the  cat");
}

TEST_F(PlainBpeTest, SpellsUnknownCharactersInBytes) {
  EXPECT_EQ(encode("é"), Ids{id("é")});
  EXPECT_EQ(encode("ç"), (Ids{id("<0xC3>"), id("<0xA7>")}));
  EXPECT_EQ(encode("a\xFF"), (Ids{id("a"), id("<0xFF>")})) << "invalid UTF-8 is kept";
  EXPECT_EQ(decode(tokenizer_, encode("ç日é"), LeadingSpace::strip), "ç日é");
  EXPECT_EQ(tokenizer_.token_bytes(id("<0xC3>")), "\xC3");
  const Ids spelled = encode("<0x41>");
  EXPECT_EQ(std::count(spelled.begin(), spelled.end(), id("<0x41>")), 0) << "typed text";
}

TEST_F(PlainBpeTest, LineEndsAreWordsOfTheirOwn) {
  EXPECT_EQ(encode("the\n\n cat"), (Ids{id("the"), id("\n\n"), id("▁cat")}));
  EXPECT_EQ(encode("\n\n\n"), Ids{id("\n\n\n")}) << "an entry that no merge produces";
  EXPECT_EQ(encode("\n\n\n\n"), (Ids{id("\n\n"), id("\n\n")}));
}

// Early conversions of Gemma 4 deny it, and the model fails without it.
TEST_F(PlainBpeTest, BeginsWithBosWhateverTheFileSays) {
  RawGguf raw;
  vocabulary_.add_to(raw);
  raw.add_bool("tokenizer.ggml.add_bos_token", false);
  EXPECT_TRUE(read_raw(raw)->add_bos());
}

TEST_F(PlainBpeTest, ControlTokensAreParsedOnRequest) {
  EXPECT_EQ(tokenizer_.encode("<eos>the", Special::parse), (Ids{id("<eos>"), id("the")}));
  const Ids plain = encode("<eos>");
  EXPECT_EQ(std::count(plain.begin(), plain.end(), id("<eos>")), 0);
}

TEST_F(PlainBpeTest, RefusesMergesOfUnknownEntries) {
  vocabulary_.merges.push_back("a zzz");
  EXPECT_TRUE(fails_with(read_plain(vocabulary_), Errc::bad_file, "zzz"));
}

}  // namespace
}  // namespace edgedraft
