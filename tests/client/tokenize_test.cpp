#include "client/commands/commands.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "tests/model/tiny_byte_bpe.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::client {
namespace {

TEST(TokenizeTest, ParsesControlTokensOnlyOnRequest) {
  const test::TinyByteBpe vocabulary;
  test::RawGguf raw;
  vocabulary.add_to(raw, "gpt-2");
  const test::TemporaryDirectory directory;
  const auto ids_of = [&](bool parse_special) {
    ::testing::internal::CaptureStdout();
    const auto status = run_tokenize({.model = directory.write("m.gguf", raw.bytes()),
                                      .file = directory.write("text", "the<|eot_id|>"),
                                      .parse_special = parse_special});
    EXPECT_TRUE(status) << status.error().message;
    return ::testing::internal::GetCapturedStdout();
  };
  const std::string end = std::to_string(vocabulary.id("<|eot_id|>"));
  EXPECT_EQ(ids_of(true), std::to_string(vocabulary.id("the")) + " " + end + "\n");
  EXPECT_EQ(ids_of(false).find(end), std::string::npos);
}

TEST(TokenizeTest, ChatWrapsMessageInTemplate) {
  const test::TinyByteBpe vocabulary;
  test::RawGguf raw;
  vocabulary.add_to(raw, "gpt-2");
  raw.add_string("tokenizer.chat_template", "{{ messages[0].content }}<|eot_id|>");
  const test::TemporaryDirectory directory;
  ::testing::internal::CaptureStdout();
  const auto status = run_tokenize({.model = directory.write("m.gguf", raw.bytes()),
                                    .file = directory.write("text", "the<|eot_id|>"),
                                    .chat = true});
  const std::string ids = ::testing::internal::GetCapturedStdout();
  ASSERT_TRUE(status) << status.error().message;
  // The message's own text is no control token; the template's is.
  const std::string end = std::to_string(vocabulary.id("<|eot_id|>"));
  EXPECT_TRUE(ids.starts_with(std::to_string(vocabulary.id("the")) + " ")) << ids;
  EXPECT_EQ(ids.find(end), ids.size() - end.size() - 1) << ids;
}

// The default may be explicit.
TEST(TokenizeTest, ChatRefusesToParseControlTokens) {
  const auto parse = [](std::vector<std::string> arguments) {
    CLI::App app;
    TokenizeOptions options;
    declare_tokenize(app, options);
    std::ranges::reverse(arguments);
    app.parse(arguments);
    return options;
  };
  EXPECT_FALSE(parse({"--chat", "--no-parse-special"}).parse_special);
  TokenizeOptions both = parse({"--chat", "--parse-special"});
  both.model = "m.gguf";
  both.file = "text";
  EXPECT_TRUE(fails_with(run_tokenize(both), Errc::usage, "--parse-special"));
}

}  // namespace
}  // namespace edgedraft::client
