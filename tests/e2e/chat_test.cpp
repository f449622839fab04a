#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/process.h"
#include "tests/e2e/programs.h"
#include "tests/e2e/server_metrics.h"
#include "tests/support/demo_prompts.h"
#include "tests/support/expect.h"

// Conversations that are interrupted, or continue without the server.
namespace edgedraft::testing {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

class ChatTest : public ::testing::Test {
 protected:
  // A turn that no context holds.
  static std::string too_long() {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += "word ";
    return text;
  }

  static Options chat(const Server& server, const Options& more) {
    const Options command{EDGEDRAFT_CLIENT, "chat", "--json", "--bundle", demo_model("moa-tli0")};
    return joined(joined(command, with_server(server)), more);
  }

  test::TemporaryDirectory scratch_;
};

// `timeout` and supervisors send it.
TEST_F(ChatTest, SigtermCancelsAnswerAndEndsProgram) {
  Server server(scratch_, {"--metrics", "127.0.0.1:0", "--pace-ms", "150"});
  const std::string turn = std::string(kStory) + "\n";
  Process client(chat(server, {"--max-tokens", "60"}), scratch_ / "chat", turn + turn + turn);
  wait_for_tokens(server.process(), kIntoTheAnswer);
  client.signal(SIGTERM);
  EXPECT_EQ(client.wait(), 130) << client.err();
  const auto answers = objects_in(client.out());
  ASSERT_EQ(answers.size(), 1u) << client.out();
  EXPECT_EQ(answers[0]["finish"], "cancelled");
}

TEST_F(ChatTest, DoesNotCorrectAnswerAfterReset) {
  auto server = std::make_unique<Server>(scratch_);
  const std::string address = server->address();
  const Options client_command =
      chat(*server, {"--offline-bundle", demo_model("independent"), "--max-tokens", "20"});
  server->process().signal(SIGKILL);
  server->process().wait();
  // The second line is sent after the client has reconnected to the server.
  const Options command{"sh", "-c",
                        R"(dir=$1; shift
                           { echo Hello.
                             while [ -d "$dir" ] && [ ! -e "$dir/back" ]; do sleep 0.05; done
                             printf '/reset\nHello again.\n'; } | "$@")",
                        "sh", scratch_.path()};
  Process client(joined(command, client_command), scratch_ / "chat");
  ASSERT_TRUE(client.wait_for_output("\n")) << client.err();
  server = std::make_unique<Server>(scratch_, Options{"--metrics", "127.0.0.1:0"}, address);
  for (int looks = 0; metrics_of(server->process())["connections"] < 1; ++looks) {
    ASSERT_LT(looks, 600) << client.err();
    std::this_thread::sleep_for(100ms);
  }
  scratch_.write("back", "");
  EXPECT_EQ(client.wait(), 0) << client.err();
  const auto answers = objects_in(client.out());
  ASSERT_EQ(answers.size(), 2u) << client.out();
  EXPECT_GT(answers[0]["stats"]["offline_tokens"], 0);
  EXPECT_EQ(answers[0]["stats"]["resyncs"], 0);
  EXPECT_FALSE(answers[1]["tokens"].empty());
  EXPECT_TRUE(answers[1]["stats"]["start_to_first_token_s"].is_null());
}

TEST_F(ChatTest, RefusesTokenFromSameInputAsTurns) {
  Process client({EDGEDRAFT_CLIENT, "chat", "--bundle", demo_model("moa-tli0"), "--pin",
                  "sha256:" + std::string(64, '0'), "--token-file", "-"},
                 scratch_ / "chat", "a token\n");
  EXPECT_EQ(client.wait(), 2);
  EXPECT_TRUE(
      contains(client.err(), "--token-file -: standard input is already used for the turns"));
}

TEST_F(ChatTest, AnswersEachLineOfStandardInput) {
  const Server server(scratch_);
  Process client(chat(server, {"--max-tokens", "40"}), scratch_ / "chat",
                 std::string(kQuestion) + "\nSet an alarm for 7:15 am.\n");
  EXPECT_EQ(client.wait(), 0) << client.err();
  const auto answers = objects_in(client.out());
  EXPECT_EQ(answers.size(), 2u);
  for (const json& answer : answers) EXPECT_FALSE(answer["text"].get<std::string>().empty());
}

TEST_F(ChatTest, ContinuesAfterRefusedTurn) {
  const Server server(scratch_);
  Process client(chat(server, {"--max-tokens", "5", "--private-detect", "mail,refuse"}),
                 scratch_ / "chat",
                 "Write to zoe@lee.org.\nWrite to <private>zoe@lee.org</private>.\nzoe@lee.org?\n");
  EXPECT_EQ(client.wait(), 0) << client.err();
  const auto turns = objects_in(client.out());
  ASSERT_EQ(turns.size(), 3u) << client.out();
  EXPECT_EQ(turns[0]["error"]["code"], "usage");
  EXPECT_TRUE(contains(turns[0]["error"]["message"].get<std::string>(), "1 mail"));
  EXPECT_TRUE(turns[1].contains("text") && turns[2].contains("text")) << client.out();
  EXPECT_TRUE(contains(client.err(), "1 mail"));
  EXPECT_TRUE(contains(client.err(), "the turn is dropped"));
}

TEST_F(ChatTest, ContinuesAfterTooLongTurn) {
  const Server server(scratch_);
  Process client(chat(server, {"--max-tokens", "5"}), scratch_ / "chat",
                 "Hello.\n" + too_long() + "\nHello again.\n");
  EXPECT_EQ(client.wait(), 1) << client.err();
  const auto turns = objects_in(client.out());
  ASSERT_EQ(turns.size(), 3u) << client.out();
  EXPECT_EQ(turns[1]["error"]["code"], "context_full");
  EXPECT_TRUE(turns[0].contains("text") && turns[2].contains("text")) << client.out();
  EXPECT_TRUE(contains(client.err(), "the turn is dropped; /reset"));
}

TEST_F(ChatTest, ReportsEmptyPromptOfTemplate) {
  const Server server(scratch_);
  const auto file = scratch_.write("template.jinja", "{# nothing #}");
  Process client(chat(server, {"--chat-template", file}), scratch_ / "chat", "Hello.\n");
  EXPECT_EQ(client.wait(), 2) << client.err();
  EXPECT_TRUE(contains(client.err(), "the prompt is empty"));
}

// A turn that fails has no first token, and the next one is not the program's first.
TEST_F(ChatTest, ReportsTimeToFirstTokenForFirstTurnOnly) {
  const Server server(scratch_);
  for (const bool fails : {false, true}) {
    Process client(chat(server, {"--max-tokens", "5"}), scratch_ / "chat",
                   (fails ? too_long() : "Hello.") + "\nHello again.\n");
    EXPECT_EQ(client.wait(), fails ? 1 : 0) << client.err();
    const auto turns = objects_in(client.out());
    ASSERT_EQ(turns.size(), 2u) << client.out();
    EXPECT_EQ(turns[0].contains("error"), fails);
    if (!fails) {
      EXPECT_GT(turns[0]["stats"]["start_to_first_token_s"], 0.0);
    }
    EXPECT_TRUE(turns[1]["stats"]["start_to_first_token_s"].is_null());
  }
}

}  // namespace
}  // namespace edgedraft::testing
