#include "shared/program/options.h"

#include <gtest/gtest.h>

namespace edgedraft {
namespace {

struct Outcome {
  int status;
  std::string said;  // on standard error
};

// A program with two commands.
Outcome parse(std::vector<std::string> words) {
  CLI::App app{"", "program"};
  app.require_subcommand(1);
  app.fallthrough();
  int tokens = 0;
  app.add_subcommand("run", "")->add_option("--tokens", tokens, "");
  app.add_subcommand("chat", "");
  words.insert(words.begin(), "program");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  OptionLayers layers(app, "none.toml");
  layers.parse(static_cast<int>(argv.size()), argv.data());
  ::testing::internal::GetCapturedStdout();
  return {.status = layers.exit_code(), .said = ::testing::internal::GetCapturedStderr()};
}

void expect_mistake(const std::vector<std::string>& words, const std::string& says) {
  const Outcome outcome = parse(words);
  EXPECT_EQ(outcome.status, 2) << words.front();
  EXPECT_NE(outcome.said.find(says), std::string::npos) << outcome.said;
}

TEST(OptionLayersTest, ACommandThatIsNoneIsAMistakeThatNamesThem) {
  expect_mistake({"NONSENSE"}, "'NONSENSE' is no command; there are run, chat");
}

TEST(OptionLayersTest, HelpDoesNotMakeNonsenseRight) {
  expect_mistake({"NONSENSE", "--help"}, "'NONSENSE' is no command; there are run, chat");
  expect_mistake({"--help", "NONSENSE"}, "'NONSENSE' is no command; there are run, chat");
  expect_mistake({"run", "NONSENSE", "--help"}, "'NONSENSE' is not expected");
}

TEST(OptionLayersTest, AnOptionThatIsNoneIsNamed) {
  expect_mistake({"--nonsense"}, "'--nonsense' is not expected");
  expect_mistake({"run", "--nonsense"}, "'--nonsense' is not expected");
}

TEST(OptionLayersTest, HelpIsNoMistake) {
  EXPECT_EQ(parse({"--help"}).status, 0);
  EXPECT_EQ(parse({"run", "--tokens", "3", "--help"}).status, 0);
}

}  // namespace
}  // namespace edgedraft
