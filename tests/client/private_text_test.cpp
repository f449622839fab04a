#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "client/privacy/detectors.h"
#include "client/privacy/local_texts.h"
#include "client/privacy/open_text.h"
#include "client/privacy/private_marks.h"
#include "client/privacy/private_vault.h"
#include "client/privacy/request_mask.h"
#include "shared/base/random.h"

// What is private in a text, and what takes its place.
namespace edgedraft {
namespace {

constexpr PrivateType kDetected[] = {PrivateType::mail, PrivateType::phone,   PrivateType::card,
                                     PrivateType::iban, PrivateType::address, PrivateType::key};

std::vector<MarkedPart> parts(std::initializer_list<std::pair<const char*, bool>> list) {
  std::vector<MarkedPart> all;
  for (const auto& [text, is_private] : list)
    all.push_back({.text = text, .is_private = is_private});
  return all;
}

TEST(PrivateMarksTest, WhatIsDoubtfulIsPrivate) {
  EXPECT_EQ(split_marks("no marks"), parts({{"no marks", false}}));
  EXPECT_EQ(split_marks("I am <private>Ann</private>."),
            parts({{"I am ", false}, {"Ann", true}, {".", false}}));
  EXPECT_EQ(split_marks("<private></private>"), parts({{"", true}}));
  EXPECT_EQ(split_marks("a <private>b"), parts({{"a ", false}, {"b", true}})) << "never closed";
  EXPECT_EQ(split_marks("<private>a</private>b</private>c"),
            parts({{"a</private>b", true}, {"c", false}}));
  EXPECT_EQ(split_marks("<private>a<private>b</private>c</private>d"),
            parts({{"a<private>b</private>c", true}, {"d", false}}));
  EXPECT_EQ(split_marks("<private>a<private>b</private>c"),
            parts({{"a<private>b</private>c", true}}));
  EXPECT_EQ(split_marks("<private>a</private><private>b</private>"),
            parts({{"a", true}, {"b", true}}));
}

TEST(PrivateMarksTest, AClosingMarkThatNoneOpenedClosesAllBeforeIt) {
  EXPECT_EQ(split_marks("I am Ann</private>, hi"), parts({{"I am Ann", true}, {", hi", false}}));
  EXPECT_EQ(split_marks("Ann</private>"), parts({{"Ann", true}}));
  EXPECT_EQ(split_marks("</private>hi"), parts({{"", true}, {"hi", false}}));
  EXPECT_EQ(split_marks("a</private>b</private>c"), parts({{"a</private>b", true}, {"c", false}}));
  EXPECT_EQ(split_marks("a</private>b<private>c</private>d"),
            parts({{"a", true}, {"b", false}, {"c", true}, {"d", false}}));
  EXPECT_EQ(split_marks("<private>a</private>b<private>c</private>d</private>e"),
            parts({{"a", true}, {"b", false}, {"c</private>d", true}, {"e", false}}));
}

TEST(PrivateMarksTest, TheCaseOfAMarkDoesNotMatter) {
  EXPECT_EQ(split_marks("I am <Private>Ann</PRIVATE>."),
            parts({{"I am ", false}, {"Ann", true}, {".", false}}));
  EXPECT_EQ(split_marks("<PRIVATE>a<private>b</Private>c</private>d"),
            parts({{"a<private>b</Private>c", true}, {"d", false}}));
  EXPECT_EQ(split_marks("<privat>, < private> and <prıvate>"),
            parts({{"<privat>, < private> and <prıvate>", false}}));
}

TEST(PrivateMarksTest, ManyMarksTakeNoLonger) {
  for (const char* const piece : {"<", "<private", "<private>", "</private>", "<private></private>",
                                  "<private>a</private></private>"}) {
    std::string text;
    while (text.size() < 1'000'000) text += piece;
    split_marks(text);
  }
}

std::string found(const PrivateVault& vault, const std::string& text) {
  std::string all;
  for (const PrivateSpan& span : vault.find(text)) {
    all += "{" + text.substr(span.begin, span.end - span.begin) + "}";
  }
  return all;
}

TEST(PrivateVaultTest, AValueIsFoundHoweverItIsWritten) {
  PrivateVault vault;
  vault.add("Zoë Müller-Lüdenscheidt", PrivateType::name);
  EXPECT_EQ(found(vault, "ask ZOE  MULLER-LÜDENSCHEIDT now"), "{ZOE  MULLER-LÜDENSCHEIDT}");
  EXPECT_EQ(found(vault, "> wrote Zoë\n> Müller-Lüdenscheidt:"), "{Zoë\n> Müller-Lüdenscheidt}");
  EXPECT_EQ(found(vault, "Zo\u00ADe\u0308 Müller-Lüdenscheidts"),
            "{Zo\u00ADe\u0308 Müller-Lüdenscheidt}");
  EXPECT_EQ(found(vault, "Zoë Meier"), "");
}

TEST(PrivateVaultTest, NumbersAreFoundHoweverTheyAreGrouped) {
  PrivateVault vault;
  vault.add("DE89 3704 0044 0532 0130 00", PrivateType::iban);
  EXPECT_EQ(found(vault, "to de89-3704-0044-0532-0130-00."), "{de89-3704-0044-0532-0130-00}");
  EXPECT_EQ(found(vault, "DE89370400440532013000"), "{DE89370400440532013000}");
  EXPECT_EQ(found(vault, "1DE89370400440532013000"), "") << "another number";
}

TEST(PrivateVaultTest, NumbersThatWereMarkedAreFoundHoweverTheyAreGrouped) {
  PrivateVault vault;
  vault.add("4111 1111 1111 1111", PrivateType::text);
  EXPECT_EQ(found(vault, "my 4111-1111-1111-1111, 4111111111111111."),
            "{4111-1111-1111-1111}{4111111111111111}");
  // Known as a text first, and then as a card.
  vault.add("4242424242424242", PrivateType::text);
  vault.add("4242424242424242", PrivateType::card);
  EXPECT_EQ(found(vault, "4242 4242 4242 4242"), "{4242 4242 4242 4242}");
  vault.add("12345", PrivateType::text);
  EXPECT_EQ(found(vault, "12 345 and 12345"), "{12345}") << "too short to be found in groups";
  vault.add("DE89 3704 0044 0532 0130 00", PrivateType::text, /*grouped=*/true);
  EXPECT_EQ(found(vault, "DE89-37040044-05320130-00"), "{DE89-37040044-05320130-00}");
  EXPECT_EQ(vault.identity_of("4111-1111-1111-1111", PrivateType::text),
            vault.identity_of("4111 1111 1111 1111", PrivateType::text));
}

TEST(PrivateVaultTest, AShortValueIsAWordAndALongOneAnything) {
  PrivateVault vault;
  vault.add("Al", PrivateType::text);
  vault.add("Alexander", PrivateType::text);
  EXPECT_EQ(found(vault, "Al also saw Alexanders al."), "{Al}{Alexander}{al}");
}

TEST(PrivateVaultTest, WhereNoSpacesStandBetweenWordsAShortValueIsFoundAnywhere) {
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
  EXPECT_EQ(found(vault, "간다"), "") << "a part of a letter";
}

TEST(PrivateVaultTest, NumbersAreFoundBesideLettersWithoutSpaces) {
  PrivateVault vault;
  vault.add("138 1234 5678", PrivateType::phone);
  vault.add("๑๒๓", PrivateType::text);
  EXPECT_EQ(found(vault, "电话13812345678是我的"), "{13812345678}");
  EXPECT_EQ(found(vault, "電話は138-1234-5678です"), "{138-1234-5678}");
  EXPECT_EQ(found(vault, "电话138123456789"), "") << "another number";
  EXPECT_EQ(found(vault, "บ้าน๑๒๓ครับ ๑๒๓๔"), "{๑๒๓}");
}

TEST(PrivateVaultTest, AValueOfSignsAloneIsFoundAsItIsWritten) {
  PrivateVault vault;
  for (const char* const value : {"#*!#*", "😀", "§", "-- --"}) {
    EXPECT_TRUE(vault.add(value, PrivateType::text));
  }
  vault.add("(+)", PrivateType::phone);
  EXPECT_EQ(found(vault, "My word is #*!#*, says Ann😀."), "{#*!#*}{😀}");
  EXPECT_EQ(found(vault, "§ 7, -- \n--, a(+)b"), "{§}{-- \n--}{(+)}");
  EXPECT_EQ(found(vault, "#*!, *#, -- or 😁"), "");
}

TEST(PrivateVaultTest, FewerThanThreeSignsOfAsciiAreNotTakenForAValue) {
  PrivateVault vault;
  for (const char* const value : {".", "?!", " : ", "！"}) {
    EXPECT_TRUE(vault.add(value, PrivateType::text));
  }
  EXPECT_EQ(found(vault, "Really?! Yes: so it is. Oh!"), "");
}

TEST(PrivateVaultTest, WhatAnyOfSeveralCoversIsCovered) {
  PrivateVault vault;
  vault.add("Ann Lee", PrivateType::name);
  vault.add("Lee Smith", PrivateType::name);
  EXPECT_EQ(found(vault, "Ann Lee Smith, Lee Smith"), "{Ann Lee Smith}{Lee Smith}");
}

TEST(PrivateVaultTest, ItSaysWhenItIsFull) {
  PrivateVault vault;
  for (std::size_t i = 0; i < PrivateVault::kValuesMax; ++i) {
    ASSERT_TRUE(vault.add("value " + std::to_string(i), PrivateType::text));
  }
  EXPECT_TRUE(vault.add("value 7", PrivateType::text)) << "it is known";
  EXPECT_TRUE(vault.add(" \n", PrivateType::text)) << "it says nothing";
  EXPECT_FALSE(vault.add("one more", PrivateType::text));
}

TEST(PrivateVaultTest, WhatWasDetectedMakesRoomAndWhatWasGivenStays) {
  PrivateVault vault;
  ASSERT_TRUE(vault.add_detected("ann@lee.org", PrivateType::mail));
  ASSERT_TRUE(vault.add_detected("zoe@lee.org", PrivateType::mail));
  ASSERT_TRUE(vault.add("Zoe@Lee.org", PrivateType::text));
  for (std::size_t i = 3; i < PrivateVault::kValuesMax; ++i) {
    ASSERT_TRUE(vault.add("value " + std::to_string(i), PrivateType::text));
  }
  EXPECT_FALSE(vault.add("one more", PrivateType::text));
  EXPECT_FALSE(vault.add_detected("one@more.org", PrivateType::mail));
  EXPECT_EQ(found(vault, "ann@lee.org, zoe@lee.org"), "{ann@lee.org}{zoe@lee.org}");
  vault.forget_detected();
  EXPECT_EQ(found(vault, "ann@lee.org, zoe@lee.org"), "{zoe@lee.org}");
  EXPECT_TRUE(vault.add_detected("one@more.org", PrivateType::mail));
}

TEST(PrivateVaultTest, NamesTakeNoRoomOfOtherValues) {
  PrivateVault vault;
  for (std::size_t i = 0; i < PrivateVault::kNamesMax; ++i) {
    ASSERT_TRUE(vault.add_name("name " + std::to_string(i)));
  }
  EXPECT_FALSE(vault.add_name("one more"));
  EXPECT_TRUE(vault.add("one more", PrivateType::text));
  EXPECT_EQ(found(vault, "of name 9999 and one more"), "{name 9999}{one more}");
}

std::string detected(const std::string& text) {
  std::vector<PrivateSpan> spans;
  for (const auto& detector : make_detectors(kDetected)) detector->find(text, spans);
  join_overlapping(spans);
  std::string all;
  for (const PrivateSpan& span : spans) {
    all += std::string(to_string(span.type)) + ":" +
           text.substr(span.begin, span.end - span.begin) + ";";
  }
  return all;
}

TEST(DetectorsTest, WhatHasAFormIsFound) {
  EXPECT_EQ(detected("write to ann.lee+x@mail.example.co.uk."),
            "mail:ann.lee+x@mail.example.co.uk;");
  EXPECT_EQ(detected("call +49 (170) 123-4567 or 030 1234567, please"),
            "phone:+49 (170) 123-4567;phone:030 1234567;");
  EXPECT_EQ(detected("call 555-867-5309"), "phone:555-867-5309;");
  EXPECT_EQ(detected("card 4111 1111 1111 1111"), "card:4111 1111 1111 1111;");
  EXPECT_EQ(detected("IBAN GB82 WEST 1234 5698 7654 32 today"),
            "iban:GB82 WEST 1234 5698 7654 32;");
  EXPECT_EQ(detected("from 192.168.17.4 to"), "address:192.168.17.4;");
  EXPECT_EQ(detected("via 2001:db8::8a2e:370:7334, or fe80::1."),
            "address:2001:db8::8a2e:370:7334;address:fe80::1;");
  EXPECT_EQ(detected("at 12 Main Street, Springfield"), "address:12 Main Street;");
  EXPECT_EQ(detected("in der Lange Hauptstraße 12b."), "address:Hauptstraße 12b;");
  EXPECT_EQ(detected("1600 Pennsylvania Avenue NW, Washington"),
            "address:1600 Pennsylvania Avenue NW;");
  EXPECT_EQ(detected("Willy-Brandt-Straße 1, Platz der Republik 1"),
            "address:Willy-Brandt-Straße 1;address:Platz der Republik 1;");
  EXPECT_EQ(detected("au 55 rue du Faubourg Saint-Honoré, ou 3 bis avenue de l'Opéra."),
            "address:55 rue du Faubourg Saint-Honoré;address:3 bis avenue de l'Opéra;");
  EXPECT_EQ(detected("call 1-800-555-0199"), "phone:1-800-555-0199;");
  EXPECT_EQ(detected("secret wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY."),
            "key:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY;");
  EXPECT_EQ(detected("key sk-abcdefghijklmnopqrst"), "key:sk-abcdefghijklmnopqrst;");
  EXPECT_EQ(detected("t=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"),
            "key:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b;");
  EXPECT_EQ(detected("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"),
            "key:-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----;");
}

TEST(DetectorsTest, ACardIsFoundWithDigitsAroundIt) {
  for (const std::string around : {"# 12/27", "# 123", "# 12 27 123", "2 #", "2 2 # 12/27",
                                   "3 # 999", "#, 12/27, CVC 123", "(#)"}) {
    for (const std::string card :
         {"4111 1111 1111 1111", "4111-1111-1111-1111", "4111111111111111", "3782 822463 10005"}) {
      std::string text = around;
      text.replace(text.find('#'), 1, card);
      std::vector<PrivateSpan> spans;
      for (const auto& detector : make_detectors(std::array{PrivateType::card})) {
        detector->find(text, spans);
      }
      join_overlapping(spans);
      const std::size_t begin = text.find(card);
      EXPECT_TRUE(std::ranges::any_of(spans, [&](const PrivateSpan& span) {
        return span.begin <= begin && span.end >= begin + card.size();
      })) << text;
    }
  }
  EXPECT_EQ(detected("4111 1111 1111 1111 12/27"), "card:4111 1111 1111 1111;");
  EXPECT_EQ(detected("2 4111 1111 1111 1111"), "card:4111 1111 1111 1111;");
  EXPECT_EQ(detected("no 4111111111111111123"), "card:4111111111111111;") << "a code without a gap";
}

TEST(DetectorsTest, WhatOnlyLooksAlikeIsLeft) {
  EXPECT_EQ(detected("On 2026-11-23 at 12:40, 1,234,567.89 of 3.14159265 (99999 of them)."), "");
  EXPECT_EQ(detected("card 4111 1111 1111 1112 has no such check digit"), "");
  EXPECT_EQ(detected("GB82 WEST 1234 5698 7654 33 neither"), "");
  EXPECT_EQ(detected("std::string at 12:40:33, ::1, a::b, abc::def, 1:2:3:4:5:6:7:8:9"), "");
  EXPECT_EQ(detected("127.0.0.1, 0.0.0.0, 999.1.1.1 and version 1.2.3.4.5"), "");
  EXPECT_EQ(detected("Donaudampfschifffahrtsgesellschaft and internationalization-of-things"), "");
  EXPECT_EQ(detected("What is 47 plus 38? a@b, x @ y.de, 12 monkeys"), "");
}

TEST(DetectorsTest, LongTextsTakeNoLonger) {
  for (const char* const piece : {"a", "1", "a.", "1 ", "2 ", "4111 ", "a@", "Ab ", "[", "é",
                                  "GB82", "-----BEGIN ", "f:", "1 rue de ", "Platz der ", "aB3/"}) {
    std::string text;
    while (text.size() < 300'000) text += piece;
    detected(text);
  }
}

PrivacyGuard make_guard() {
  return PrivacyGuard({.detects = {std::begin(kDetected), std::end(kDetected)}});
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

TEST(RequestMaskTest, AConversationThatGrowsKeepsItsPlaceholders) {
  PrivacyGuard guard = make_guard();
  const std::string first = "I am <private>Ann</private>, ann@lee.org.";
  const std::string second = "Tell Bob that ann called. <private>Bob</private>?";
  EXPECT_EQ(masked_texts(guard, {first}),
            (std::vector<std::string>{"I am [TEXT_001], [MAIL_001]."}));
  EXPECT_EQ(masked_texts(guard, {first, "Hi, Ann!", second}),
            (std::vector<std::string>{"I am [TEXT_001], [MAIL_001].", "Hi, [TEXT_001]!",
                                      "Tell [TEXT_002] that [TEXT_001] called. [TEXT_002]?"}));
  // A request for a title has no marks any more.
  EXPECT_EQ(masked_texts(guard, {"Title of: I am Ann, Bob's friend"})[0],
            "Title of: I am [TEXT_001], [TEXT_002]'s friend");
}

TEST(RequestMaskTest, WhatWasDetectedBeforeMakesRoom) {
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

TEST(RequestMaskTest, WhatWasMarkedStaysPrivateWithoutSpacesBesideIt) {
  PrivacyGuard guard = make_guard();
  const std::string first = "我叫<private>李雷</private>。";
  EXPECT_EQ(masked_texts(guard, {first}), (std::vector<std::string>{"我叫[TEXT_001]。"}));
  EXPECT_EQ(masked_texts(guard, {first, "李雷的生日是哪天？"}),
            (std::vector<std::string>{"我叫[TEXT_001]。", "[TEXT_001]的生日是哪天？"}));
}

// The answer that said it comes back with the next request.
TEST(RequestMaskTest, WhatWasMarkedStaysPrivateWithoutALetterInIt) {
  PrivacyGuard guard = make_guard();
  const std::string first = "My word is <private>#*!#*</private>, my sign <PRIVATE>🦊</Private>.";
  EXPECT_EQ(masked_texts(guard, {first, "Your word is #*!#*, your sign 🦊."}),
            (std::vector<std::string>{"My word is [TEXT_001], my sign [TEXT_002].",
                                      "Your word is [TEXT_001], your sign [TEXT_002]."}));
}

TEST(RequestMaskTest, NothingBeforeALoneClosingMarkGoesUp) {
  PrivacyGuard guard = make_guard();
  EXPECT_EQ(masked_texts(guard, {"Ann Lee</private> is who I am.", "Hi, Ann Lee!"}),
            (std::vector<std::string>{"[TEXT_001] is who I am.", "Hi, [TEXT_001]!"}));
}

TEST(RequestMaskTest, ThePlaceholdersOfAUserAreHisOwn) {
  PrivacyGuard guard = make_guard();
  const Masked masked =
      mask(guard, {{"[TEXT_001] is <private>Ann</private>, not [text_002].", false}});
  EXPECT_EQ(masked.texts[0], "[TEXT_001] is [TEXT_003], not [text_002].");
  EXPECT_EQ(masked.outcome.placeholders->value_of("[TEXT_001]"), nullptr);
  EXPECT_EQ(*masked.outcome.placeholders->value_of("[text_003]"), "Ann");
}

TEST(RequestMaskTest, WhatTheTargetSaidKeepsThePlaceholdersOfTheUser) {
  PrivacyGuard guard = make_guard();
  RequestMask mask(guard, PrivateMode::mask);
  const std::string asked = "Write to <private>Ann</private>.";
  const std::string said = "I wrote to [TEXT_001].";
  mask.learn(asked, false);
  mask.learn(said, false, Writer::target);
  ASSERT_TRUE(mask.check());
  EXPECT_EQ(mask.apply(asked, false), "Write to [TEXT_001].");
  EXPECT_EQ(mask.apply(said, false), said);
  EXPECT_EQ(*mask.outcome()->placeholders->value_of("[TEXT_001]"), "Ann");
}

TEST(RequestMaskTest, WhatWasMarkedIsOneValueHoweverItIsGrouped) {
  PrivacyGuard guard({});
  EXPECT_EQ(masked_texts(guard, {"My card is <private>4111 1111 1111 1111</private>, my account "
                                 "<private>DE89 3704 0044 0532 0130 00</private>.",
                                 "4111-1111-1111-1111 and DE89370400440532013000?"}),
            (std::vector<std::string>{"My card is [TEXT_001], my account [TEXT_002].",
                                      "[TEXT_001] and [TEXT_002]?"}));
}

TEST(RequestMaskTest, OnlyWhatNobodyKnewOrMarkedIsRefused) {
  PrivacyGuard guard({.detects = {PrivateType::mail}, .refuses_detected = true});
  const auto is_refused = [&](const std::vector<std::string>& texts, Writer writer = Writer::user) {
    RequestMask mask(guard, PrivateMode::mask);
    for (const std::string& text : texts) mask.learn(text, false, writer);
    const auto checked = mask.check();
    return !checked && checked.error().code == Errc::usage;
  };
  EXPECT_TRUE(is_refused({"Write to zoe@lee.org."}));
  EXPECT_TRUE(is_refused({"Write to zoe@lee.org."})) << "a refusal teaches nothing";
  EXPECT_FALSE(is_refused({"Write to zoe@lee.org, I say, <private>zoe@lee.org</private>."}));
  EXPECT_FALSE(is_refused({"I wrote to zoe@lee.org."})) << "as the answer has it";
  EXPECT_FALSE(is_refused({"<private>Ann, of ann@lee.org</private>", "Hi Ann, of ann@lee.org!"}));
  EXPECT_TRUE(is_refused({"Zoe@lee.org and bob@lee.org"}));
  EXPECT_TRUE(is_refused({"Bob: bob@lee.org"}, Writer::function));
  EXPECT_FALSE(is_refused({"Ask max@lee.org."}, Writer::target)) << "nobody can mark it";
}

TEST(RequestMaskTest, WhatTheDeviceSaidPrivatelyIsMaskedLater) {
  PrivacyGuard guard({});
  guard.local_texts().add("Once there was a little girl named Ann.");
  EXPECT_EQ(masked_texts(guard, {"Tell me more.", "You said: there was a little girl named Ann!"}),
            (std::vector<std::string>{"Tell me more.", "[TEXT_001]"}));
  RequestMask mask(guard, PrivateMode::mask);
  EXPECT_TRUE(mask.holds("once there was a little girl"));
  EXPECT_TRUE(guard.finds("once there was a little girl"));
}

TEST(RequestMaskTest, APlaceholderHoldsNothingPrivate) {
  PrivacyGuard guard({});
  RequestMask mask(guard, PrivateMode::mask);
  for (const char* const value : {"text", "001", "Ann"}) mask.learn(value, true);
  EXPECT_EQ(mask.apply("Ann", false), "[TEXT_001]");
  EXPECT_FALSE(mask.still_holds("[TEXT_001], [text_001]"));
  EXPECT_TRUE(mask.still_holds("[TEXT_001] of Ann"));
  EXPECT_TRUE(mask.still_holds("[TEXT_001] in text"));
}

// Nothing but its being there, and which others it equals, tells of a private text.
TEST(RequestMaskTest, PrivateTextsOfAllKindsGiveTheSameRequest) {
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
    ASSERT_EQ(*masked.outcome.placeholders->value_of("[TEXT_001]"), value);
  }
}

TEST(RequestMaskTest, WhatIsOpenOfATextDependsOnNothingPrivate) {
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

TEST(RequestMaskTest, MoreThanThereArePlaceholdersForIsRefused) {
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

TEST(LocalTextsTest, WhatRepeatsFiveWordsInARowIsRecognised) {
  LocalTexts texts;
  texts.add("Once there was a little girl named Ann, who had a red ball.");
  texts.add("Yes, she did.");
  EXPECT_TRUE(texts.recognises("> there was A LITTLE\n> girl"));
  EXPECT_TRUE(texts.recognises("You said: \"named Ann -- who had a...\""));
  EXPECT_FALSE(texts.recognises("Once there was a boy, who had a red car."));
  EXPECT_FALSE(texts.recognises("Yes, she did."));
}

TEST(LocalTextsTest, TheOldestMakesRoom) {
  LocalTexts texts;
  texts.add("Once there was a little girl named Ann.");
  texts.add("Her ball was red and very old.");
  std::string more;  // of letters that are words by themselves
  Random random(1);
  for (std::size_t i = 0; i + 1 < LocalTexts::kFingerprintsMax; ++i) {
    const auto letter = static_cast<std::uint32_t>(0x4e00 + random.below(20'000));
    more += {static_cast<char>(0xe0 | letter >> 12), static_cast<char>(0x80 | (letter >> 6 & 63)),
             static_cast<char>(0x80 | (letter & 63))};
  }
  texts.add(more);  // two runs of five words more than there is room for
  EXPECT_FALSE(texts.recognises("Once there was a little"));
  EXPECT_TRUE(texts.recognises("was a little girl named"));
  EXPECT_TRUE(texts.recognises("ball was red and very old"));
  EXPECT_TRUE(texts.recognises(more.substr(300, 15)));
}

TEST(LocalTextsTest, WithoutSpacesBetweenWordsEachLetterIsOne) {
  LocalTexts texts;
  texts.add("从前有一个小女孩，名字叫安娜。");
  texts.add("昔々あるところに");
  texts.add("กาลครั้งหนึ่งนานมาแล้ว");
  EXPECT_TRUE(texts.recognises("你说：「有一个小女孩」"));
  EXPECT_TRUE(texts.recognises("「あるところ」とは"));
  EXPECT_TRUE(texts.recognises("นานมาแล้ว"));
  EXPECT_FALSE(texts.recognises("有一个小男孩，名字叫李雷"));
  EXPECT_FALSE(texts.recognises("นาน"));

  texts.add("옛날 옛적에 작은 소녀가 살고 있었다.");
  EXPECT_TRUE(texts.recognises("옛적에 작은 소녀가 살고 있었다"));
  EXPECT_FALSE(texts.recognises("작은 소녀가")) << "two words, of many parts of letters";
}

}  // namespace
}  // namespace edgedraft
