#include "client/commands/terminal_printer.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <sstream>
#include <string_view>

#include "tests/model/tiny_tokenizer.h"

namespace edgedraft::client {
namespace {

class TerminalPrinterTest : public ::testing::Test {
 protected:
  TerminalPrinterTest() {
    test::RawGguf raw;
    vocabulary_.add_to(raw);
    bytes_ = raw.bytes();
    tokenizer_ = std::make_unique<Tokenizer>(Tokenizer::read(*GgufFile::parse(bytes_)).value());
  }

  TerminalPrinter printer(Display display) {
    return {*tokenizer_, LeadingSpace::strip, display, {.text = text_, .notes = notes_}};
  }
  void write(TerminalPrinter& printer, std::initializer_list<const char*> tokens,
             Provenance provenance) {
    for (const char* token : tokens) printer.on_token(vocabulary_.id(token), provenance);
  }

  // As bytes, one token each.
  void spell(TerminalPrinter& printer, std::string_view text, Provenance provenance) {
    for (const char c : text) {
      std::array<char, 8> byte{};
      std::snprintf(byte.data(), byte.size(), "<0x%02X>", static_cast<unsigned char>(c));
      printer.on_token(vocabulary_.id(byte.data()), provenance);
    }
  }

  static constexpr const char* kThe = "\xE2\x96\x81the";
  static constexpr const char* kCat =
      "\xE2\x96\x81"
      "cat";

  test::TinyVocabulary vocabulary_;
  Bytes bytes_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::ostringstream text_;
  std::ostringstream notes_;
};

TEST_F(TerminalPrinterTest, ShowsVerifiedTextAtOnceAndEndsLine) {
  for (const Display display : {Display::live_styled, Display::live_plain, Display::final_text}) {
    text_.str("");
    TerminalPrinter p = printer(display);
    write(p, {kThe}, Provenance::verified);
    EXPECT_EQ(text_.str(), "the");
    write(p, {kCat, "<|end|>"}, Provenance::verified);
    EXPECT_EQ(text_.str(), "the cat");
    p.finish();
    EXPECT_EQ(text_.str(), "the cat\n");
    EXPECT_EQ(p.text(), "the cat");
    EXPECT_EQ(notes_.str(), "");
  }
}

TEST_F(TerminalPrinterTest, HidesLinkStatesDuringPrivateAnswer) {
  TerminalPrinter p = printer(Display::final_text);
  p.begin(nullptr, /*stays_here=*/true);
  p.note("private: answered on this device");
  p.on_state(ClientState::offline, "the device answers first");
  write(p, {kThe}, Provenance::private_);
  p.finish();
  EXPECT_EQ(text_.str(), "the\n");
  EXPECT_EQ(notes_.str(), "edgedraft: private: answered on this device\n");
  p.begin();
  p.on_state(ClientState::offline, "no answer");
  EXPECT_NE(notes_.str().find("offline: no answer"), std::string::npos);
}

TEST_F(TerminalPrinterTest, NeverShowsPartOfCharacter) {
  TerminalPrinter p = printer(Display::final_text);
  write(p, {kThe, "<0xC3>"}, Provenance::verified);
  EXPECT_EQ(text_.str(), "the");
  write(p, {"<0xA9>"}, Provenance::verified);
  EXPECT_EQ(text_.str(), "the\xC3\xA9");
  write(p, {"<0xC3>"}, Provenance::verified);
  p.finish();
  EXPECT_EQ(text_.str(), "the\xC3\xA9\xEF\xBF\xBD\n");
}

TEST_F(TerminalPrinterTest, EscapesControlCharactersOnTerminal) {
  for (const Display display : {Display::live_styled, Display::live_plain}) {
    text_.str("");
    TerminalPrinter p = printer(display);
    // The start of "set the title", once in ASCII and once as U+009D.
    write(p, {"<0x1B>", "<0xC2>", "<0x9D>"}, Provenance::verified);
    EXPECT_EQ(text_.str(), "\\x1b\\x9d");
    p.on_state(ClientState::offline, "gone\n\x1b[2Jdone");
    EXPECT_NE(text_.str().find("gone\\x0a\\x1b[2Jdone"), std::string::npos) << text_.str();
  }
  TerminalPrinter pipe = printer(Display::final_text);
  text_.str("");
  write(pipe, {"<0x1B>"}, Provenance::verified);
  EXPECT_EQ(text_.str(), "\x1b") << "a pipe receives unescaped text";
}

TEST_F(TerminalPrinterTest, PipeReceivesOfflineTextAfterConfirmation) {
  TerminalPrinter p = printer(Display::final_text);
  write(p, {kThe}, Provenance::verified);
  p.on_state(ClientState::offline, "the connection broke");
  write(p, {kCat, kCat, kCat}, Provenance::offline);
  EXPECT_EQ(text_.str(), "the");
  EXPECT_EQ(notes_.str(), "edgedraft: offline: the connection broke\n");
  p.on_confirmed(0, 2);
  EXPECT_EQ(text_.str(), "the cat");
  p.on_rewrite(2);
  p.on_state(ClientState::online, "1 confirmed, 2 rewritten");
  write(p, {kThe}, Provenance::verified);
  EXPECT_EQ(text_.str(), "the cat the");
  p.finish();
  EXPECT_EQ(text_.str(), "the cat the\n");
  EXPECT_EQ(p.text(), "the cat the");
  EXPECT_NE(notes_.str().find("online again: 1 confirmed, 2 rewritten"), std::string::npos);
}

TEST_F(TerminalPrinterTest, PipeReceivesKeptTextBeforeLaterText) {
  TerminalPrinter p = printer(Display::final_text);
  write(p, {kThe, kCat}, Provenance::offline);
  EXPECT_EQ(text_.str(), "");
  write(p, {kThe}, Provenance::verified);
  EXPECT_EQ(text_.str(), "the cat the");
}

TEST_F(TerminalPrinterTest, PipeReceivesOfflineTextWhenAnswerEnds) {
  TerminalPrinter p = printer(Display::final_text);
  write(p, {kThe, kCat}, Provenance::offline);
  p.finish();
  EXPECT_EQ(text_.str(), "the cat\n");
}

TEST_F(TerminalPrinterTest, ReprintsAnswerCorrectedAfterEnd) {
  TerminalPrinter p = printer(Display::final_text);
  write(p, {kThe, kCat, kCat}, Provenance::offline);
  p.finish();
  p.on_confirmed(0, 2);
  p.on_rewrite(2);
  write(p, {kThe}, Provenance::verified);
  p.finish();
  EXPECT_EQ(text_.str(), "the cat cat\n[corrected]\nthe cat the\n");
}

TEST_F(TerminalPrinterTest, TerminalShowsOfflineTextDimAndMarked) {
  TerminalPrinter p = printer(Display::live_styled);
  write(p, {kThe}, Provenance::verified);
  p.on_state(ClientState::offline, "no answer");
  write(p, {kCat}, Provenance::offline);
  EXPECT_EQ(text_.str(), "the\n\x1b[2m[offline: no answer]\x1b[0m\n\x1b[2;3m cat\x1b[0m");
  EXPECT_EQ(notes_.str(), "");
}

TEST_F(TerminalPrinterTest, TerminalReprintsCorrectedLineFromStart) {
  TerminalPrinter p = printer(Display::live_plain);
  write(p, {kThe, "<0x0A>", kThe}, Provenance::verified);
  p.on_state(ClientState::offline, "no answer");
  write(p, {kCat, kCat}, Provenance::offline);
  p.on_confirmed(0, 4);
  p.on_rewrite(4);
  p.on_state(ClientState::online, "1 confirmed, 1 rewritten");
  write(p, {kThe}, Provenance::verified);
  p.finish();
  EXPECT_EQ(text_.str(),
            "the\n the\n[offline: no answer]\n cat cat\n"
            "[online again: 1 confirmed, 1 rewritten]\n the cat the\n");
  EXPECT_EQ(p.text(), "the\n the cat the");
}

constexpr std::string_view kChannels =
    "<|channel|>analysis<|message|>2 and 2. <|end|><|start|>assistant"
    "<|channel|>final<|message|>It is 4.";

TEST_F(TerminalPrinterTest, HidesMarksOfChannels) {
  for (const Display display : {Display::live_styled, Display::live_plain, Display::final_text}) {
    text_.str("");
    TerminalPrinter p = printer(display);
    spell(p, kChannels, Provenance::verified);
    EXPECT_EQ(text_.str(), "2 and 2.\n\nIt is 4.");
    p.finish();
    EXPECT_EQ(text_.str(), "2 and 2.\n\nIt is 4.\n");
    EXPECT_EQ(p.text(), kChannels);
  }
}

TEST_F(TerminalPrinterTest, ShowsAnswerThatOnlyBeginsLikeChannel) {
  TerminalPrinter p = printer(Display::final_text);
  spell(p, "<|chan", Provenance::verified);
  EXPECT_EQ(text_.str(), "");
  p.finish();
  EXPECT_EQ(text_.str(), "<|chan\n");
}

TEST_F(TerminalPrinterTest, CorrectsAnswerInChannel) {
  TerminalPrinter p = printer(Display::live_plain);
  spell(p, kChannels, Provenance::offline);
  p.on_rewrite(static_cast<std::uint32_t>(kChannels.size() - 2));
  p.on_state(ClientState::online, "1 rewritten");
  spell(p, "5.", Provenance::verified);
  p.finish();
  EXPECT_EQ(text_.str(), "2 and 2.\n\nIt is 4.\n[online again: 1 rewritten]\nIt is 5.\n");
}

TEST_F(TerminalPrinterTest, WritesNoEscapeCodesWithoutColour) {
  for (const Display display : {Display::live_plain, Display::final_text, Display::silent}) {
    TerminalPrinter p = printer(display);
    p.on_state(ClientState::offline, "no answer");
    write(p, {kThe, kCat}, Provenance::offline);
    p.on_rewrite(1);
    p.on_state(ClientState::online, "back");
    p.finish();
    EXPECT_EQ((text_.str() + notes_.str()).find('\x1b'), std::string::npos);
  }
}

TEST_F(TerminalPrinterTest, SilentDisplayOnlyKeepsText) {
  TerminalPrinter p = printer(Display::silent);
  write(p, {kThe, kCat}, Provenance::offline);
  p.finish();
  EXPECT_EQ(text_.str(), "");
  EXPECT_EQ(p.text(), "the cat");
}

TEST_F(TerminalPrinterTest, NextAnswerStartsFresh) {
  TerminalPrinter p = printer(Display::live_plain);
  write(p, {kThe, kCat}, Provenance::verified);
  p.finish();
  p.begin();
  write(p, {kCat}, Provenance::verified);
  p.finish();
  EXPECT_EQ(text_.str(), "the cat\ncat\n");
  EXPECT_EQ(p.text(), "cat");
}

}  // namespace
}  // namespace edgedraft::client
