#include "shared/base/printable.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "shared/base/log.h"

namespace edgedraft {
namespace {

using std::string_view_literals::operator""sv;

TEST(PrintableTest, KeepsReadableText) {
  for (const auto text : {""sv, "plain"sv, "Grüße, 你好, \xC2\xA0 \xC3\x9B"sv}) {
    EXPECT_EQ(printable(text, Lines::one), text);
    EXPECT_EQ(printable(text, Lines::many), text);
  }
}

TEST(PrintableTest, EscapesTerminalControls) {
  EXPECT_EQ(printable("\x1b]0;owned\x07", Lines::many), "\\x1b]0;owned\\x07");
  EXPECT_EQ(printable("a\rb\x7f\0"sv, Lines::many), "a\\x0db\\x7f\\x00");
  // U+009B is the single-character form of ESC [.
  EXPECT_EQ(printable("\xC2\x9B"
                      "2J",
                      Lines::many),
            "\\x9b2J");
}

TEST(PrintableTest, EscapesLineBreaksAndDirectionMarks) {
  for (const auto sign : {"\xE2\x80\xA8"sv, "\xE2\x80\xAE"sv, "\xE2\x81\xA6"sv, "\xE2\x80\x8F"sv}) {
    const std::string shown = printable("a" + std::string(sign) + "b", Lines::many);
    EXPECT_EQ(shown.size(), 2u + 3 * 4);
    EXPECT_TRUE(shown.starts_with("a\\xe2\\x8") && shown.ends_with('b')) << shown;
  }
  EXPECT_EQ(printable("\xE2\x80\x93 \xE2\x82\xAC", Lines::one), "\xE2\x80\x93 \xE2\x82\xAC")
      << "– €";
}

TEST(PrintableTest, EscapesLineBreaksInSingleLines) {
  EXPECT_EQ(printable("a\n\tb", Lines::many), "a\n\tb");
  EXPECT_EQ(printable("a\n\tb", Lines::one), "a\\x0a\\x09b");
}

TEST(PrintableTest, JsonLogEscapesTerminalControls) {
  const std::string message = "\x1b]0;owned\x07 \xC2\x9B]2J \x7f Grüße";
  ::testing::internal::CaptureStderr();
  make_logger("info", LogFormat::json)->info(message);
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(nlohmann::json::parse(line)["message"], message);
  for (const char c : line) EXPECT_TRUE((c >= 0x20 && c < 0x7F) || c == '\n') << line;
}

}  // namespace
}  // namespace edgedraft
