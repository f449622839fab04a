#include "client/privacy/request_mask.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "client/privacy/detectors.h"
#include "client/privacy/open_text.h"
#include "client/privacy/private_marks.h"
#include "client/privacy/private_vault.h"
#include "shared/base/random.h"

// Placeholders for private text in a request.
namespace edgedraft::client {
namespace {

PrivacyGuard make_guard() {
  return PrivacyGuard({.detects = {std::begin(kDetectedTypes), std::end(kDetectedTypes)}});
}

struct Masked {
  std::vector<std::string> texts;
  RequestMask::Outcome outcome;
};

Masked mask(PrivacyGuard& guard, const std::vector<std::pair<std::string, bool>>& texts) {
  RequestMask mask(guard, PrivateMode::mask);
  Masked masked;
  for (const auto& [text, is_private] : texts) mask.learn(text, is_private);
  EXPECT_TRUE(mask.check());
  for (const auto& [text, is_private] : texts) masked.texts.push_back(mask.apply(text, is_private));
  masked.outcome = mask.outcome().value();
  return masked;
}

std::vector<std::string> masked_texts(PrivacyGuard& guard, const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, bool>> unmarked;
  for (const std::string& text : texts) unmarked.emplace_back(text, false);
  return mask(guard, unmarked).texts;
}

TEST(RequestMaskTest, GrowingConversationKeepsPlaceholders) {
  PrivacyGuard guard = make_guard();
  const std::string first = "I am <private>Ann</private>, ann@lee.org.";
  const std::string second = "Tell Bob that ann called. <private>Bob</private>?";
  EXPECT_EQ(masked_texts(guard, {first}),
            (std::vector<std::string>{"I am [TEXT_001], [MAIL_001]."}));
  EXPECT_EQ(masked_texts(guard, {first, "Hi, Ann!", second}),
            (std::vector<std::string>{"I am [TEXT_001], [MAIL_001].", "Hi, [TEXT_001]!",
                                      "Tell [TEXT_002] that [TEXT_001] called. [TEXT_002]?"}));
  // A request for a title carries no marks.
  EXPECT_EQ(masked_texts(guard, {"Title of: I am Ann, Bob's friend"})[0],
            "Title of: I am [TEXT_001], [TEXT_002]'s friend");
}

TEST(RequestMaskTest, EvictsEarlierDetectedValues) {
  PrivacyGuard guard = make_guard();
  const auto fill = [&] {
    std::string text;
    for (std::size_t i = 0; i < PrivateVault::kValuesMax; ++i) {
      text += "u" + std::to_string(i) + "@lee.org ";
    }
    RequestMask mask(guard, PrivateMode::local);
    mask.learn(text, /*is_private=*/false);
    ASSERT_TRUE(mask.check());
  };
  for (const std::string text : {"zoe@quist.org", "<private>Zoe Quist</private>"}) {
    fill();
    RequestMask mask(guard, PrivateMode::mask);
    mask.learn(text, /*is_private=*/false);
    ASSERT_TRUE(mask.check()) << text;
    EXPECT_EQ(mask.apply(text, /*is_private=*/false).find("Zoe"), std::string::npos);
    EXPECT_TRUE(mask.outcome());
  }
}

TEST(RequestMaskTest, DoesNotReusePlaceholdersWrittenByUser) {
  PrivacyGuard guard = make_guard();
  const Masked masked =
      mask(guard, {{"[TEXT_001] is <private>Ann</private>, not [text_002].", false}});
  EXPECT_EQ(masked.texts[0], "[TEXT_001] is [TEXT_003], not [text_002].");
  EXPECT_EQ(masked.outcome.placeholders->value_of("[TEXT_001]"), nullptr);
  EXPECT_EQ(*masked.outcome.placeholders->value_of("[text_003]"), "Ann");
}

TEST(RequestMaskTest, TreatsGroupingsOfMarkedNumberAsOneValue) {
  PrivacyGuard guard({});
  EXPECT_EQ(masked_texts(guard, {"My card is <private>4111 1111 1111 1111</private>, my account "
                                 "<private>DE89 3704 0044 0532 0130 00</private>.",
                                 "4111-1111-1111-1111 and DE89370400440532013000?"}),
            (std::vector<std::string>{"My card is [TEXT_001], my account [TEXT_002].",
                                      "[TEXT_001] and [TEXT_002]?"}));
}

TEST(RequestMaskTest, RefusesOnlyUnknownUnmarkedValues) {
  PrivacyGuard guard({.detects = {PrivateType::mail}, .refuses_detected = true});
  const auto is_refused = [&](const std::vector<std::string>& texts, Writer writer = Writer::user) {
    RequestMask mask(guard, PrivateMode::mask);
    for (const std::string& text : texts) mask.learn(text, false, writer);
    const auto checked = mask.check();
    return !checked && checked.error().code == Errc::usage;
  };
  EXPECT_TRUE(is_refused({"Write to zoe@lee.org."}));
  EXPECT_TRUE(is_refused({"Write to zoe@lee.org."})) << "a refused request stores no value";
  EXPECT_FALSE(is_refused({"Write to zoe@lee.org, I say, <private>zoe@lee.org</private>."}));
  EXPECT_FALSE(is_refused({"I wrote to zoe@lee.org."})) << "the value is known by now";
  EXPECT_FALSE(is_refused({"<private>Ann, of ann@lee.org</private>", "Hi Ann, of ann@lee.org!"}));
  EXPECT_TRUE(is_refused({"Zoe@lee.org and bob@lee.org"}));
  EXPECT_TRUE(is_refused({"Bob: bob@lee.org"}, Writer::function));
  EXPECT_FALSE(is_refused({"Ask max@lee.org."}, Writer::target))
      << "text of the target cannot carry marks";
}

TEST(RequestMaskTest, MasksQuotesOfPrivateAnswers) {
  PrivacyGuard guard({});
  guard.local_texts().add("Once there was a little girl named Ann.");
  EXPECT_EQ(masked_texts(guard, {"Tell me more.", "You said: there was a little girl named Ann!"}),
            (std::vector<std::string>{"Tell me more.", "[TEXT_001]"}));
  RequestMask mask(guard, PrivateMode::mask);
  EXPECT_TRUE(mask.holds("once there was a little girl"));
  EXPECT_TRUE(guard.finds("once there was a little girl"));
}

TEST(RequestMaskTest, PlaceholdersDoNotCountAsPrivate) {
  PrivacyGuard guard({});
  RequestMask mask(guard, PrivateMode::mask);
  for (const char* const value : {"text", "001", "Ann"}) mask.learn(value, true);
  EXPECT_EQ(mask.apply("Ann", false), "[TEXT_001]");
  EXPECT_FALSE(mask.still_holds("[TEXT_001], [text_001]"));
  EXPECT_TRUE(mask.still_holds("[TEXT_001] of Ann"));
  EXPECT_TRUE(mask.still_holds("[TEXT_001] in text"));
}

// The request shows only that private text exists, and which texts are equal.
TEST(RequestMaskTest, PrivateTextsOfAllKindsGiveSameRequest) {
  std::string long_text;
  while (long_text.size() < 100'000) long_text += "A long one, with 12 Main Street in it. ";
  Random random(3);
  std::vector<std::string> values = {"",
                                     "x",
                                     "7",
                                     long_text,
                                     "</private>",
                                     "<private>",
                                     "a</private>b",
                                     "<|im_start|>system",
                                     "{{ bos_token }}",
                                     "e\u0301\u0301\u0301",
                                     "\u202Egnp.exe",
                                     "[TEXT_009]",
                                     "[INST] \n\n",
                                     "zoe@lee.org",
                                     "\"}],\"x\":[{"};
  while (values.size() < 10'000) {
    std::string value;
    const std::size_t size = random.below(40);
    for (std::size_t i = 0; i < size; ++i) value += static_cast<char>(0x20 + random.below(0x5F));
    values.push_back(value);
  }
  for (const std::string& value : values) {
    PrivacyGuard guard = make_guard();
    const Masked masked =
        mask(guard, {{"Qqqq wwww: ", false}, {value, true}, {" eeee, tttt rrrr.", false}});
    ASSERT_EQ(masked.texts,
              (std::vector<std::string>{"Qqqq wwww: ", "[TEXT_001]", " eeee, tttt rrrr."}))
        << value;
    ASSERT_EQ(*masked.outcome.placeholders->value_of("[TEXT_001]"), without_marks(value).text);
  }
}

TEST(RequestMaskTest, OpenPartDoesNotDependOnPrivateText) {
  for (const char* const value : {"Ann", "", " ", "[TEXT_001]", "a [TEXT_002]", "<|im_end|>"}) {
    PrivacyGuard guard = make_guard();
    RequestMask mask(guard, PrivateMode::prefix);
    const std::string text = "I am <private>" + std::string(value) + "</private>, [TEXT_003].";
    mask.learn(text, false);
    const auto masked = MarkedText::foreign(mask.apply(text, false));
    const auto outcome = mask.outcome();
    ASSERT_TRUE(outcome && outcome->is_local && outcome->placeholders) << value;
    const OpenText open = put_back(masked, *outcome->placeholders);
    EXPECT_EQ(open.text.text(), "I am " + std::string(value) + ", [TEXT_003].");
    EXPECT_EQ(open.open_bytes, 5u);
    EXPECT_EQ(open.text.spans(), MarkedText::foreign(open.text.text()).spans());
  }
}

TEST(RequestMaskTest, RefusesMoreValuesThanPlaceholders) {
  PrivacyGuard guard = make_guard();
  RequestMask mask(guard, PrivateMode::mask);
  std::string text;
  for (std::uint32_t i = 0; i <= Placeholders::kCountMax; ++i) {
    text += "<private>value" + std::to_string(i) + "</private> ";
  }
  mask.learn(text, false);
  EXPECT_TRUE(mask.check());
  mask.apply(text, false);
  EXPECT_EQ(mask.outcome().error().code, Errc::unsupported);
}

TEST(RequestMaskTest, SendsNoDetectedValue) {
  std::string body;
  for (int line = 0; line < 20; ++line) {
    body += "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n";
  }
  const auto pem = [&body](const std::string& label) {
    return "-----BEGIN " + label + "-----\n" + body + "-----END " + label + "-----\n";
  };
  const std::string texts[] = {
      "Write to zoe@lee.org.",
      "Call 030  -  1234567, or +49 (170) 123-4567.",
      "It is 4242424242424242123, or 4111 1111 1111 1111 12/27.",
      "To GB82 WEST 1234 5698 7654 32.",
      "From 192.168.17.4, 2001:db8::8a2e:370:7334, 12 Main Street.",
      pem("PRIVATE KEY"),
      pem("RSA PRIVATE KEY") + pem("EC PRIVATE KEY"),
      "> " + pem("OPENSSH PRIVATE KEY"),
      "Token eyJhbGciOiJIUzI1NiJ9." + std::string(9'000, 'a') + "1.b2-c3_d4.",
      "key sk-abcdefghijklmnopqrstü",
      "key ghp_abcdefghijklmnop-----qrstuvwxyz0123",
      R"({"mail": "zoe\u0040lee.org", "key": "\nsk-abcdefghijklmnopqrst"})",
      R"({"to": "{\"mail\": \"a\\nzoe@lee.org\"}"})",
  };
  for (const std::string& text : texts) {
    std::vector<std::string> found;
    for (const Detector& detector : make_detectors(kDetectedTypes)) {
      std::vector<PrivateSpan> spans;
      detector.find(text, spans);
      for (const PrivateSpan& span : spans) {
        found.push_back(text.substr(span.begin, span.end - span.begin));
      }
    }
    for (const PrivateMode mode : {PrivateMode::mask, PrivateMode::prefix, PrivateMode::local}) {
      PrivacyGuard guard = make_guard();
      RequestMask mask(guard, mode);
      mask.learn(text, /*is_private=*/false);
      ASSERT_TRUE(mask.check()) << text;
      const std::string applied = mask.apply(text, /*is_private=*/false);
      const auto outcome = mask.outcome();
      ASSERT_TRUE(outcome) << text;
      EXPECT_EQ(outcome->is_local, mode != PrivateMode::mask) << text;
      if (mode == PrivateMode::local) continue;
      EXPECT_NE(applied, text);
      for (const char* const part : {"lee.org", "MIIE", "sk-"}) found.emplace_back(part);
      for (const std::string& value : found) {
        EXPECT_EQ(applied.find(value), std::string::npos) << value << " of " << applied;
      }
    }
  }
}

TEST(RequestMaskTest, TreatsEscapesOfDetectedValueAsOneValue) {
  PrivacyGuard guard = make_guard();
  const Masked masked = mask(
      guard,
      {{R"({"of": "\nzoe@lee.org", "to": "zoe\u0040lee.org"})", false}, {"zoe@lee.org?", false}});
  EXPECT_EQ(masked.texts, (std::vector<std::string>{R"({"of": "[MAIL_001]", "to": "[MAIL_001]"})",
                                                    "[MAIL_001]?"}));
  EXPECT_EQ(*masked.outcome.placeholders->value_of("[MAIL_001]"), "zoe@lee.org");
}

TEST(RequestMaskTest, NestedMarksMarkSeparateValues) {
  const std::string later = "Who is Ann Quist? Dear Ann Quist, hello";
  PrivacyGuard guard = make_guard();
  EXPECT_EQ(
      masked_texts(guard, {"<private>Dear <private>Ann Quist</private>, hello</private>", later}),
      (std::vector<std::string>{"[TEXT_001]", "Who is [TEXT_002]? [TEXT_001]"}));
  PrivacyGuard other = make_guard();
  const Masked masked = mask(other, {{"<private>Ann Quist</private>", true}, {later, false}});
  EXPECT_EQ(masked.texts,
            (std::vector<std::string>{"[TEXT_001]", "Who is [TEXT_001]? Dear [TEXT_001], hello"}));
  EXPECT_EQ(*masked.outcome.placeholders->value_of("[TEXT_001]"), "Ann Quist");
  RequestMask local(guard, PrivateMode::local);
  EXPECT_EQ(local.apply("<private>Dear <private>Ann</private></private>", true), "Dear Ann");
}

TEST(RequestMaskTest, MasksWholeValueIfMarkedInPart) {
  PrivacyGuard guard = make_guard();
  EXPECT_EQ(
      masked_texts(guard, {"I am <private>Ann Lee</private>.", "Call Ann <private>Lee</private>",
                           "My card: 4111 1111 1111 <private>1111</private>."}),
      (std::vector<std::string>{"I am [TEXT_001].", "Call [TEXT_001]", "My card: [CARD_001]."}));
  EXPECT_EQ(masked_texts(guard, {"Lee<private>x</private>"})[0], "[TEXT_001][TEXT_002]")
      << "a mark ends a word";
}

TEST(RequestMaskTest, PutsPlaceholderInFirstOfSeveralParts) {
  PrivacyGuard guard = make_guard();
  masked_texts(guard, {"I am <private>Ann Lee</private>."});
  const std::vector<RequestPart> parts{{.text = "", .is_private = true},
                                       {.text = "Call Ann "},
                                       {.text = "Lee", .is_private = true},
                                       {.text = ", please"},
                                       {.text = "", .is_private = true}};
  RequestMask mask(guard, PrivateMode::mask);
  mask.learn(parts, Writer::user);
  ASSERT_TRUE(mask.check());
  EXPECT_EQ(mask.apply(parts), (std::vector<std::string>{"[TEXT_001]", "Call [TEXT_002]", "",
                                                         ", please", "[TEXT_001]"}));
}

TEST(RequestMaskTest, StaysFastForLongTexts) {
  for (const char* const piece : {"<private>a</private>", "<private>", "\\", "\\n", "\\\\u0061",
                                  "4111111111111111 ", "zoe@lee.org ", "sk-", "[TEXT_001]"}) {
    std::string text;
    while (text.size() < 100'000) text += piece;
    PrivacyGuard guard = make_guard();
    RequestMask mask(guard, PrivateMode::mask);
    mask.learn(text, /*is_private=*/false);
    ASSERT_TRUE(mask.check());
    mask.apply(text, /*is_private=*/false);
  }
}

}  // namespace
}  // namespace edgedraft::client
