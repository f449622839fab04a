// Detectors of values with known formats, and texts that were seen on this device.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "client/privacy/detectors.h"
#include "client/privacy/local_texts.h"
#include "client/privacy/private_span.h"
#include "shared/base/random.h"

namespace edgedraft::client {
namespace {

using namespace std::chrono_literals;

std::string detected(const std::string& text) {
  std::vector<PrivateSpan> spans = detected_in(text, make_detectors(kDetectedTypes));
  join_overlapping(spans);
  std::string all;
  for (const PrivateSpan& span : spans) {
    all += std::string(to_string(span.type)) + ":" +
           text.substr(span.begin, span.end - span.begin) + ";";
  }
  return all;
}

TEST(DetectorsTest, FindsValuesWithKnownFormats) {
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

TEST(DetectorsTest, FindsWholeKeysInAnySpelling) {
  const std::string keys[] = {
      "-----BEGIN PRIVATE KEY-----\nMIIE+/=\n-----END PRIVATE KEY-----",
      R"(-----BEGIN PRIVATE KEY-----\nMIIE\nvQIB==\n-----END PRIVATE KEY-----)",
      R"(-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----)",
      "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,4C1B\n\n"
      "MIIE\n-----END RSA PRIVATE KEY-----",
      "-----BEGIN EC PRIVATE KEY-----\n> MIIE\n> vQIB\n> -----END EC PRIVATE KEY-----",
      "-----BEGIN PRIVATE KEY-----\\n\" +\n    \"MIIE\\n\" +\n    \"-----END PRIVATE KEY-----",
      "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\nlQOY\n=aB3c\n"
      "-----END PGP PRIVATE KEY BLOCK-----",
      "-----BEGIN PRIVATE KEY-----\n> MIIE\n> vQIB",
      R"(-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES,4C\n\nMIIE)",
      "eyJ" + std::string(100'000, 'a'),
  };
  for (const std::string& key : keys) {
    EXPECT_EQ(detected("It is \"" + key + "\"."), "key:" + key + ";");
  }
  EXPECT_EQ(detected(keys[0] + "\n" + keys[4]), "key:" + keys[0] + ";key:" + keys[4] + ";");
  EXPECT_EQ(detected("-----BEGIN PUBLIC KEY-----\nMIIE\n-----END PUBLIC KEY-----"), "");
}

TEST(DetectorsTest, FindsCardsAmongOtherDigits) {
  for (const std::string around : {"# 12/27", "# 123", "# 12 27 123", "2 #", "2 2 # 12/27",
                                   "3 # 999", "#, 12/27, CVC 123", "(#)"}) {
    for (const std::string card :
         {"4111 1111 1111 1111", "4111-1111-1111-1111", "4111111111111111", "3782 822463 10005"}) {
      std::string text = around;
      text.replace(text.find('#'), 1, card);
      std::vector<PrivateSpan> spans;
      for (const Detector& detector : make_detectors(std::array{PrivateType::card})) {
        detector.find(text, spans);
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
  EXPECT_EQ(detected("no 4111111111111111123"), "card:4111111111111111;")
      << "security code without a space";
}

TEST(DetectorsTest, FindsNumbersAcrossLineBreaks) {
  EXPECT_EQ(detected("card 4111 1111\n1111 1111, IBAN GB82 WEST 1234\r\n  5698 7654 32"),
            "card:4111 1111\n1111 1111;iban:GB82 WEST 1234\r\n  5698 7654 32;");
  EXPECT_EQ(detected("030 1234567\n030 7654321"), "phone:030 1234567;phone:030 7654321;");
  EXPECT_EQ(detected("4111 1111\n\n1111 1111, 3.14159265358979, a/4111/b/1111"), "");
}

TEST(DetectorsTest, IgnoresLookalikes) {
  EXPECT_EQ(detected("On 2026-11-23 at 12:40, 1,234,567.89 of 3.14159265 (99999 of them)."), "");
  EXPECT_EQ(detected("0.000419, 0.934 (0.950), 2026-11-22 12:00, 18550.5     646.5"), "");
  EXPECT_EQ(detected("card 4111 1111 1111 1112 has no such check digit"), "");
  EXPECT_EQ(detected("GB82 WEST 1234 5698 7654 33 neither"), "");
  EXPECT_EQ(detected("std::string at 12:40:33, ::1, a::b, abc::def, 1:2:3:4:5:6:7:8:9"), "");
  EXPECT_EQ(detected("127.0.0.1, 0.0.0.0, 999.1.1.1 and version 1.2.3.4.5"), "");
  EXPECT_EQ(detected("Donaudampfschifffahrtsgesellschaft and internationalization-of-things"), "");
  EXPECT_EQ(detected("What is 47 plus 38? a@b, x @ y.de, 12 monkeys"), "");
}

TEST(DetectorsTest, StaysFastForLongTexts) {
  for (const char* const piece : {"a",
                                  "1",
                                  "a.",
                                  "1 ",
                                  "2 ",
                                  "4111 ",
                                  "a@",
                                  "Ab ",
                                  "[",
                                  "é",
                                  "GB82",
                                  "-----BEGIN ",
                                  "f:",
                                  "1 rue de ",
                                  "Platz der ",
                                  "aB3/",
                                  "sk-",
                                  "eyJ ",
                                  "-----BEGIN PRIVATE KEY-----",
                                  "\\n",
                                  "1\n",
                                  "4111\n ",
                                  "4\u00A0",
                                  "٤",
                                  "\"",
                                  "\u200B",
                                  "-----BEGIN PRIVATE KEY-----a: \\\\"}) {
    std::string text;
    while (text.size() < 300'000) text += piece;
    detected(text);
  }
}

TEST(LocalTextsTest, RecognisesFiveConsecutiveWords) {
  LocalTexts texts;
  texts.add("Once there was a little girl named Ann, who had a red ball.");
  texts.add("Yes, she did.");
  EXPECT_TRUE(texts.recognises("> there was A LITTLE\n> girl"));
  EXPECT_TRUE(texts.recognises("You said: \"named Ann -- who had a...\""));
  EXPECT_FALSE(texts.recognises("Once there was a boy, who had a red car."));
  EXPECT_FALSE(texts.recognises("Yes, she did."));
}

TEST(LocalTextsTest, EvictsOldestFingerprints) {
  LocalTexts texts;
  texts.add("Once there was a little girl named Ann.");
  texts.add("Her ball was red and very old.");
  std::string more;  // letters that are words by themselves
  Random random(1);
  for (std::size_t i = 0; i + 1 < LocalTexts::kFingerprintsMax; ++i) {
    const auto letter = static_cast<std::uint32_t>(0x4e00 + random.below(20'000));
    more += {static_cast<char>(0xe0 | letter >> 12), static_cast<char>(0x80 | (letter >> 6 & 63)),
             static_cast<char>(0x80 | (letter & 63))};
  }
  texts.add(more);  // two runs, five words over the limit
  EXPECT_FALSE(texts.recognises("Once there was a little"));
  EXPECT_TRUE(texts.recognises("was a little girl named"));
  EXPECT_TRUE(texts.recognises("ball was red and very old"));
  EXPECT_TRUE(texts.recognises(more.substr(300, 15)));
}

TEST(LocalTextsTest, TreatsLettersOfUnspacedScriptsAsWords) {
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
  EXPECT_FALSE(texts.recognises("작은 소녀가")) << "only two words";
}

}  // namespace
}  // namespace edgedraft::client
