#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "client/privacy/private_marks.h"
#include "client/privacy/private_span.h"
#include "client/privacy/private_vault.h"
#include "client/privacy/unescaped_text.h"
#include "shared/base/random.h"

// Marks of private text, and values that are found again in any spelling.
namespace edgedraft::client {
namespace {

using namespace std::chrono_literals;

// The text without marks, its private parts in braces.
std::string split(const std::string& text) {
  std::string all;
  for (const MarkedPart& part : split_marks(text)) {
    all += part.is_private ? "{" + part.text + "}" : part.text;
  }
  return all;
}

TEST(PrivateMarksTest, TreatsAmbiguousMarksAsPrivate) {
  EXPECT_EQ(split("no marks"), "no marks");
  EXPECT_EQ(split("I am <private>Ann</private>."), "I am {Ann}.");
  EXPECT_EQ(split("<private></private>"), "{}");
  EXPECT_EQ(split("a <private>b"), "a {b}") << "unclosed mark";
  EXPECT_EQ(split("<private>a</private>b</private>c"), "{a</private>b}c");
  EXPECT_EQ(split("<private>a<private>b</private>c</private>d"), "{a<private>b</private>c}d");
  EXPECT_EQ(split("<private>a<private>b</private>c"), "{a<private>b</private>c}");
  EXPECT_EQ(split("<private>a</private><private>b</private>"), "{a}{b}");
}

TEST(PrivateMarksTest, UnopenedClosingMarkMakesPrecedingTextPrivate) {
  EXPECT_EQ(split("I am Ann</private>, hi"), "{I am Ann}, hi");
  EXPECT_EQ(split("Ann</private>"), "{Ann}");
  EXPECT_EQ(split("</private>hi"), "{}hi");
  EXPECT_EQ(split("a</private>b</private>c"), "{a</private>b}c");
  EXPECT_EQ(split("a</private>b<private>c</private>d"), "{a}b{c}d");
  EXPECT_EQ(split("<private>a</private>b<private>c</private>d</private>e"), "{a}b{c</private>d}e");
}

TEST(PrivateMarksTest, IgnoresCaseOfMarks) {
  EXPECT_EQ(split("I am <Private>Ann</PRIVATE>."), "I am {Ann}.");
  EXPECT_EQ(split("<PRIVATE>a<private>b</Private>c</private>d"), "{a<private>b</Private>c}d");
  EXPECT_EQ(split("I am <PRİVATE>Ann</prıvate>."), "I am {Ann}.");
}

TEST(PrivateMarksTest, ToleratesMalformedMarks) {
  EXPECT_EQ(split("I am <private id=\"1\">Ann</private\n>."), "I am {Ann}.");
  EXPECT_EQ(split("I am <private Ann</private>."), "I am { Ann}.");
  EXPECT_EQ(split("I am <private/>Ann"), "I am {Ann}");
  EXPECT_EQ(split("{\"a\": \"\\u003cprivate\\u003eAnn\\u003c\\/private\\u003e\"}"),
            "{\"a\": \"{Ann}\"}");
  EXPECT_EQ(split("&amp;lt;private&amp;gt;Ann&#60;/private&#x3e; %3Cprivate%3Eb"), "{Ann} {b}");
}

TEST(PrivateMarksTest, AcceptsSimilarMarksInPairs) {
  for (const auto& [open, close] : std::initializer_list<std::pair<const char*, const char*>>{
           {"<privat>", "</privat>"},
           {"<privte>", "</prviate>"},
           {"<privates>", "</private_>"},
           {"<private-note id='1'>", "</private-note>"},
           {"<x_private>", "</x_private>"},
           {"<!-- private -->", "<!-- /private -->"},
           {"{private}", "{/private}"},
           {"(private)", "(/ private )"},
           {"‹private›", "‹/private›"},
           {"«private»", "«/private»"},
           {"⟨private⟩", "⟨/private⟩"},
           {"【private】", "【/private】"},
           {"｛private｝", "{/private}"},
       }) {
    EXPECT_EQ(split(std::string("I am ") + open + "Ann" + close + "."), "I am {Ann}.") << open;
  }
  for (const char* const ordinary :
       {"<privat>, <private-key>, <privately>, [private 1]",
        "a (private) word, {private} or «private»", "<!-- private -->",
        "under (/private/tmp) or {/private}", "</privates> after <pirate>"}) {
    EXPECT_EQ(split(ordinary), ordinary);
  }
}

TEST(PrivateMarksTest, StaysFastForManyMarks) {
  for (const char* const piece : {"<",
                                  "<private",
                                  "<private>",
                                  "</private>",
                                  "<private></private>",
                                  "< ",
                                  "<\u200B",
                                  "\uFEFF",
                                  "＜",
                                  "<private a",
                                  "\\u003cprivate",
                                  "&lt;private ",
                                  "[private",
                                  "<private>a",
                                  "<private>a</private></private>",
                                  "{",
                                  "«\u200B",
                                  "<!-",
                                  "(privat",
                                  "<x_",
                                  "‹private›a"}) {
    std::string text;
    while (text.size() < 1'000'000) text += piece;
    split_marks(text);
    std::size_t bytes = 0;
    for (const PrivateSpan& span : without_marks(text).marked) bytes += span.end - span.begin;
    EXPECT_LE(bytes, 10 * text.size()) << piece;
  }
}

std::string unmarked(const std::string& private_text) {
  const UnmarkedText result = without_marks(private_text);
  std::string all = result.text;
  for (const PrivateSpan& span : result.marked) {
    all += "|" + result.text.substr(span.begin, span.end - span.begin);
  }
  return all;
}

TEST(PrivateMarksTest, RemovesMarksFromPrivateText) {
  EXPECT_EQ(unmarked("Ann Quist"), "Ann Quist");
  EXPECT_EQ(unmarked("Dear <private>Ann Quist</private>, hello"),
            "Dear Ann Quist, hello|Ann Quist");
  EXPECT_EQ(unmarked("<private>a<PRIVATE>b</private></private>c"), "abc|b|ab");
  EXPECT_EQ(unmarked("a</private>b</private>c"), "abc|a|b");
  EXPECT_EQ(unmarked("a<private>b"), "ab|b");
  EXPECT_EQ(unmarked("</private>"), "|");
}

std::string unescaped_all(const std::string& text) {
  std::string all;
  for (const UnescapedText& reading : unescaped_texts(text)) all += reading.text + "|";
  return all;
}

TEST(UnescapedTextTest, UnescapesEachNestingLevel) {
  EXPECT_EQ(unescaped_all(R"(no escape: \q, \u12, \)"), "");
  EXPECT_EQ(unescaped_all(R"(J\u00f6rg\nM.)"), "Jörg\nM.|");
  EXPECT_EQ(unescaped_all(R"({\"name\": \"J\\u00f6rg\"})"),
            R"({"name": "J\u00f6rg"}|{"name": "Jörg"}|)");
  EXPECT_EQ(unescaped_all("AT&T, 5 % off, &unknown; &#; %zz"), "");
  EXPECT_EQ(unescaped_all("a&nbsp;&lstrok;&amp;amp; &#64;&#x40 %C5%82"),
            "a\u00A0ł&amp; @@ ł|a\u00A0ł& @@ ł|");
  EXPECT_EQ(unescaped_all(R"(%5cn\n)"), "%5cn\n|\\n\n|\n\n|");
  EXPECT_EQ(unescaped_all(R"(\ud83e\udd8a, \xfc, \U0000006f)"), "🦊, ü, o|");
  EXPECT_EQ(unescaped_all(R"(\ud83e, \udd8a)"), "\uFFFD, \uFFFD|") << "unpaired surrogates";
  EXPECT_LE(unescaped_texts(std::string(1'000'000, '\\')).size(), 3u);
}

TEST(UnescapedTextTest, MapsBytesToSourcePositions) {
  const auto readings = unescaped_texts(R"(a\\u00f6b)");
  ASSERT_EQ(readings.size(), 2u);
  EXPECT_EQ(readings[1].text, "aöb");
  EXPECT_EQ(readings[1].begins, (std::vector<std::uint32_t>{0, 1, 1, 8}));
  EXPECT_EQ(readings[1].ends, (std::vector<std::uint32_t>{1, 8, 8, 9}));
}

std::string found(const PrivateVault& vault, const std::string& text) {
  std::string all;
  for (const PrivateSpan& span : vault.find(text)) {
    all += "{" + text.substr(span.begin, span.end - span.begin) + "}";
  }
  return all;
}

TEST(PrivateVaultTest, FindsValueInAnySpelling) {
  PrivateVault vault;
  vault.add("Zoë Müller-Lüdenscheidt", PrivateType::name);
  EXPECT_EQ(found(vault, "ask ZOE  MULLER-LÜDENSCHEIDT now"), "{ZOE  MULLER-LÜDENSCHEIDT}");
  EXPECT_EQ(found(vault, "> wrote Zoë\n> Müller-Lüdenscheidt:"), "{Zoë\n> Müller-Lüdenscheidt}");
  EXPECT_EQ(found(vault, "Zo\u00ADe\u0308 Müller-Lüdenscheidts"),
            "{Zo\u00ADe\u0308 Müller-Lüdenscheidt}");
  EXPECT_EQ(found(vault, "Zoë Meier"), "");
}

TEST(PrivateVaultTest, FindsNumbersInAnyGrouping) {
  PrivateVault vault;
  vault.add("DE89 3704 0044 0532 0130 00", PrivateType::iban);
  EXPECT_EQ(found(vault, "to de89-3704-0044-0532-0130-00."), "{de89-3704-0044-0532-0130-00}");
  EXPECT_EQ(found(vault, "DE89370400440532013000"), "{DE89370400440532013000}");
  EXPECT_EQ(found(vault, "1DE89370400440532013000"), "") << "a longer number";
}

TEST(PrivateVaultTest, FindsMarkedNumbersInAnyGrouping) {
  PrivateVault vault;
  vault.add("4111 1111 1111 1111", PrivateType::text);
  EXPECT_EQ(found(vault, "my 4111-1111-1111-1111, 4111111111111111."),
            "{4111-1111-1111-1111}{4111111111111111}");
  // Added as text first, then as a card.
  vault.add("4242424242424242", PrivateType::text);
  vault.add("4242424242424242", PrivateType::card);
  EXPECT_EQ(found(vault, "4242 4242 4242 4242"), "{4242 4242 4242 4242}");
  vault.add("12345", PrivateType::text);
  EXPECT_EQ(found(vault, "12 345 and 12345"), "{12345}") << "too short for grouping";
  vault.add("DE89 3704 0044 0532 0130 00", PrivateType::text);
  EXPECT_EQ(found(vault, "DE89-37040044-05320130-00"), "{DE89-37040044-05320130-00}");
  EXPECT_EQ(vault.identity_of("4111-1111-1111-1111", PrivateType::text),
            vault.identity_of("4111 1111 1111 1111", PrivateType::text));
}

TEST(PrivateVaultTest, FindsShortValuesAsWordsAndLongOnesAnywhere) {
  PrivateVault vault;
  vault.add("Al", PrivateType::text);
  vault.add("Alexander", PrivateType::text);
  EXPECT_EQ(found(vault, "Al also saw Alexanders al."), "{Al}{Alexander}{al}");
}

TEST(PrivateVaultTest, FindsShortValuesAnywhereInUnspacedScripts) {
  PrivateVault vault;
  for (const char* const value : {"李雷", "山田", "タロウ", "สมชาย", "Ann", "민수", "가"}) {
    vault.add(value, PrivateType::name);
  }
  EXPECT_EQ(found(vault, "李雷的生日"), "{李雷}");
  EXPECT_EQ(found(vault, "山田さんとﾀﾛｳくん"), "{山田}{ﾀﾛｳ}");
  EXPECT_EQ(found(vault, "คุณสมชายไปตลาด"), "{สมชาย}");
  EXPECT_EQ(found(vault, "我叫Ann。Ann是我"), "{Ann}{Ann}");
  EXPECT_EQ(found(vault, "Annabel met Joann and Ann2"), "");
  EXPECT_EQ(found(vault, "민수 씨, 민수!"), "{민수}{민수}");
  EXPECT_EQ(found(vault, "민수는 Ann은"), "{민수}{Ann}");
  EXPECT_EQ(found(vault, "간다"), "") << "part of a syllable";
}

TEST(PrivateVaultTest, FindsNumbersBesideLettersOfUnspacedScripts) {
  PrivateVault vault;
  vault.add("138 1234 5678", PrivateType::phone);
  vault.add("๑๒๓", PrivateType::text);
  EXPECT_EQ(found(vault, "电话13812345678是我的"), "{13812345678}");
  EXPECT_EQ(found(vault, "電話は138-1234-5678です"), "{138-1234-5678}");
  EXPECT_EQ(found(vault, "电话138123456789"), "") << "a longer number";
  EXPECT_EQ(found(vault, "บ้าน๑๒๓ครับ ๑๒๓๔"), "{๑๒๓}");
}

TEST(PrivateVaultTest, FindsSymbolValuesAsWritten) {
  PrivateVault vault;
  for (const char* const value : {"#*!#*", "😀", "§", "-- --"}) {
    EXPECT_TRUE(vault.add(value, PrivateType::text));
  }
  vault.add("(+)", PrivateType::phone);
  EXPECT_EQ(found(vault, "My word is #*!#*, says Ann😀."), "{#*!#*}{😀}");
  EXPECT_EQ(found(vault, "§ 7, -- \n--, a(+)b"), "{§}{-- \n--}{(+)}");
  EXPECT_EQ(found(vault, "#*!, *#, -- or 😁"), "");
}

TEST(PrivateVaultTest, IgnoresFewerThanThreeAsciiSymbols) {
  PrivateVault vault;
  for (const char* const value : {".", "?!", " : ", "！"}) {
    EXPECT_TRUE(vault.add(value, PrivateType::text));
  }
  EXPECT_EQ(found(vault, "Really?! Yes: so it is. Oh!"), "");
}

TEST(PrivateVaultTest, CoversUnionOfOverlappingValues) {
  PrivateVault vault;
  vault.add("Ann Lee", PrivateType::name);
  vault.add("Lee Smith", PrivateType::name);
  EXPECT_EQ(found(vault, "Ann Lee Smith, Lee Smith"), "{Ann Lee Smith}{Lee Smith}");
}

TEST(PrivateVaultTest, RefusesValuesWhenFull) {
  PrivateVault vault;
  for (std::size_t i = 0; i < PrivateVault::kValuesMax; ++i) {
    ASSERT_TRUE(vault.add("value " + std::to_string(i), PrivateType::text));
  }
  EXPECT_TRUE(vault.add("value 7", PrivateType::text)) << "already known";
  EXPECT_TRUE(vault.add(" \n", PrivateType::text)) << "blank";
  EXPECT_FALSE(vault.add("one more", PrivateType::text));
}

TEST(PrivateVaultTest, ForgetsDetectedValuesAndKeepsMarkedOnes) {
  PrivateVault vault;
  ASSERT_TRUE(vault.add("Zoe@Lee.org", PrivateType::text));
  for (std::size_t i = 0; i < PrivateVault::kValuesMax; ++i) {
    ASSERT_TRUE(vault.add_detected("u" + std::to_string(i) + "@lee.org", PrivateType::mail));
  }
  EXPECT_FALSE(vault.add_detected("one@more.org", PrivateType::mail));
  EXPECT_TRUE(vault.add("Ann Lee", PrivateType::text))
      << "detected values do not use the space of marked ones";
  EXPECT_EQ(found(vault, "u7@lee.org, zoe@lee.org"), "{u7@lee.org}{zoe@lee.org}");
  vault.forget_detected();
  EXPECT_EQ(found(vault, "u7@lee.org, zoe@lee.org"), "{zoe@lee.org}");
  EXPECT_TRUE(vault.add_detected("one@more.org", PrivateType::mail));
}

TEST(PrivateVaultTest, ForgetsOnlyValuesNoLongerInUse) {
  const Instant start{};
  PrivateVault vault;
  vault.set_now(start);
  ASSERT_TRUE(vault.add("Ann Quist", PrivateType::text));
  ASSERT_TRUE(vault.add("Bob Quist", PrivateType::text));
  vault.set_now(start + 1s);
  for (std::size_t i = 2; i < PrivateVault::kValuesMax; ++i) {
    ASSERT_TRUE(vault.add("value " + std::to_string(i), PrivateType::text));
  }
  vault.forget_ended();
  EXPECT_FALSE(vault.add("one more", PrivateType::text)) << "all values are in use";
  vault.set_now(start + PrivateVault::kInUse);
  EXPECT_EQ(found(vault, "Dear Bob Quist"), "{Bob Quist}");
  vault.forget_ended();
  EXPECT_EQ(found(vault, "Ann Quist, Bob Quist, value 77"), "{Bob Quist}{value 77}");
  vault.set_now(start + PrivateVault::kInUse + 1s);
  found(vault, "value 78");
  vault.forget_ended();
  EXPECT_LE(vault.given_count(), PrivateVault::kValuesMax - PrivateVault::kRequestMax);
  EXPECT_EQ(found(vault, "Bob Quist, value 77, value 78"), "{Bob Quist}{value 77}{value 78}");
}

TEST(PrivateVaultTest, ForgetsValuesOfRefusedRequests) {
  PrivateVault vault;
  vault.add("Ann Quist", PrivateType::text);
  vault.add_detected("zoe@lee.org", PrivateType::mail);
  const std::string text = "Ann Quist, Bob Quist, zoe@lee.org";
  {
    VaultTransaction refused(vault);
    vault.add("Bob Quist", PrivateType::text);
    vault.forget_detected();
    EXPECT_EQ(found(vault, text), "{Ann Quist}{Bob Quist}");
  }
  EXPECT_EQ(found(vault, text), "{Ann Quist}{zoe@lee.org}");
  {
    VaultTransaction accepted(vault);
    vault.add("Bob Quist", PrivateType::text);
    accepted.keep();
  }
  EXPECT_EQ(found(vault, text), "{Ann Quist}{Bob Quist}{zoe@lee.org}");
}

// Values with one prefix, values that are prefixes of each other, and a long value that almost
// matches at each position.
TEST(PrivateVaultTest, StaysFastForValuesWithCommonPrefix) {
  const auto numbered = [](std::size_t i) { return std::string(30, 'a') + std::to_string(i); };
  const auto nested = [](std::size_t i) { return std::string(i + 1, 'a'); };
  const auto spaced = [](std::size_t i) {
    std::string value;
    while (value.size() < 4 * i + 2) value += "a a ";
    return value + "b";
  };
  for (const auto& value :
       std::initializer_list<std::function<std::string(std::size_t)>>{numbered, nested, spaced}) {
    PrivateVault vault;
    for (std::size_t i = 0; i < 9'000; i += i < 3'000 ? 1 : 40) {
      vault.add(value(i), PrivateType::text);
    }
    vault.add(std::string(100'000, 'a') + "b", PrivateType::text);
    for (const std::string piece : {"a", "a ", "aa "}) {
      std::string text;
      while (text.size() < 300'000) text += piece;
      const Instant begin = Clock::now();
      vault.find(text);
      EXPECT_LT(Clock::now() - begin, 3s) << value(3) << " in " << piece;
    }
  }
}

TEST(PrivateVaultTest, FindsLongestOfValuesWithCommonPrefix) {
  PrivateVault vault;
  std::vector<std::string> values;
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    std::string value;
    const std::size_t size = 6 + random.below(20);
    while (value.size() < size) value += "ab"[random.below(2)];
    values.push_back(value);
    vault.add(value, PrivateType::text);
  }
  for (int round = 0; round < 50; ++round) {
    std::string text;
    while (text.size() < 200) text += "ab"[random.below(2)];
    std::vector<PrivateSpan> expected;
    for (const std::string& value : values) {
      for (std::size_t at = text.find(value); at != std::string::npos;
           at = text.find(value, at + 1))
        expected.push_back({.begin = at, .end = at + value.size(), .type = PrivateType::text});
    }
    join_overlapping(expected);
    ASSERT_EQ(vault.find(text), expected) << text;
  }
}

TEST(PrivateVaultTest, NamesDoNotUseSpaceOfOtherValues) {
  PrivateVault vault;
  for (std::size_t i = 0; i < PrivateVault::kNamesMax; ++i) {
    ASSERT_TRUE(vault.add_name("name " + std::to_string(i)));
  }
  EXPECT_FALSE(vault.add_name("one more"));
  EXPECT_TRUE(vault.add("one more", PrivateType::text));
  EXPECT_EQ(found(vault, "of name 9999 and one more"), "{name 9999}{one more}");
}

TEST(PrivateVaultTest, FindsValuesInEscapedText) {
  PrivateVault vault;
  vault.add("Jörg Müller", PrivateType::name);
  vault.add("12 Main Street\nSpringfield", PrivateType::text);
  EXPECT_EQ(found(vault, R"({"name": "J\u00f6rg M\u00fcller"})"), R"({J\u00f6rg M\u00fcller})");
  EXPECT_EQ(found(vault, R"(at "12 Main Street\nSpringfield".)"),
            R"({12 Main Street\nSpringfield})");
  EXPECT_EQ(found(vault, R"({\"name\": \"J\\u00f6rg M\\u00fcller\"})"),
            R"({J\\u00f6rg M\\u00fcller})");
  EXPECT_EQ(found(vault, R"(root ::= "J\xf6rg M\xFCller")"), R"({J\xf6rg M\xFCller})");
  EXPECT_EQ(found(vault, "J\\u{f6}rg M\\u{0000FC}ller, J%u00F6rg M%u00FCller, JOERG MUELLER"),
            "{J\\u{f6}rg M\\u{0000FC}ller}{J%u00F6rg M%u00FCller}{JOERG MUELLER}");
  EXPECT_EQ(vault.known_as(R"(J\u00f6rg M\u00fcller)")->text, "Jörg Müller");
}

TEST(PrivateVaultTest, FindsAsWrittenValueInsideLongerNumber) {
  PrivateVault vault;
  vault.add_detected("4242424242424242", PrivateType::card);
  EXPECT_EQ(found(vault, "4242424242424242123"), "");
  vault.add_detected("4242424242424242", PrivateType::card, /*as_written=*/true);
  EXPECT_EQ(found(vault, "4242424242424242123"), "{4242424242424242}");
}

}  // namespace
}  // namespace edgedraft::client
