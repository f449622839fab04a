#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/e2e/process.h"

namespace edgedraft::testing {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using Options = std::vector<std::string>;

constexpr const char* kStory = "Tell me a story about a dog and a ball.";

// Slow enough a target that the kill comes in mid-answer.
const Options kPaced{"--pace-ms", "250"};
// By then some tokens have come, on a busy machine too; the whole answer takes some four seconds.
constexpr auto kIntoTheAnswer = 1500ms;

class OutageTest : public ::testing::Test {
 protected:
  Options common(const Server& server) {
    return {"-p",           kStory,
            "--max-tokens", "80",
            "--server",     server.address(),
            "--pin",        server.pin(),
            "--bundle",     demo_model("moa-tli0")};
  }

  json plain_answer() {
    Server server(scratch_);
    Options options = common(server);
    options.push_back("--plain");
    const auto client = start_client(scratch_, "plain", options);
    EXPECT_EQ(client->wait(), 0) << client->err();
    return json::parse(client->out());
  }

  // The server is killed in mid-answer and is back, at full speed, before the drafter is through.
  json answer_through_an_outage(const Options& resync) {
    auto server = std::make_unique<Server>(scratch_, kPaced);
    Options options = common(*server);
    options.insert(options.end(), {"--pace-ms", "30"});
    options.insert(options.end(), resync.begin(), resync.end());
    const auto client = start_client(scratch_, "client", options);
    std::this_thread::sleep_for(kIntoTheAnswer);
    server->process().signal(SIGKILL);
    server->process().wait();
    std::this_thread::sleep_for(300ms);
    const std::string address = server->address();
    server = std::make_unique<Server>(scratch_, Options{}, address);
    EXPECT_EQ(client->wait(), 0) << client->err();
    const json answer = json::parse(client->out());
    EXPECT_GT(answer["stats"]["offline_tokens"], 0);
    return answer;
  }

  static std::vector<std::string> provenance(const json& answer) {
    return answer["provenance"].get<std::vector<std::string>>();
  }

  Scratch scratch_;
};

TEST_F(OutageTest, TheAnswerGoesOnWhenTheServerIsKilled) {
  Server server(scratch_, kPaced);
  const auto client = start_client(scratch_, "client", common(server));
  std::this_thread::sleep_for(kIntoTheAnswer);
  server.process().signal(SIGKILL);
  ASSERT_EQ(client->wait(), 0) << client->err();
  const json answer = json::parse(client->out());
  const auto marks = provenance(answer);
  ASSERT_EQ(marks.size(), answer["tokens"].size());
  const auto first_offline = std::find(marks.begin(), marks.end(), "offline");
  EXPECT_NE(first_offline, marks.begin());
  EXPECT_NE(first_offline, marks.end());
  EXPECT_TRUE(
      std::all_of(first_offline, marks.end(), [](const auto& m) { return m == "offline"; }));
  EXPECT_EQ(answer["stats"]["offline_tokens"], marks.end() - first_offline);

  const json plain = plain_answer();
  for (std::ptrdiff_t i = 0; i < first_offline - marks.begin(); ++i) {
    EXPECT_EQ(answer["tokens"][static_cast<std::size_t>(i)],
              plain["tokens"][static_cast<std::size_t>(i)]);
  }
}

TEST_F(OutageTest, CheckCorrectsWhatWasWrittenOfflineToThePlainAnswer) {
  const json answer = answer_through_an_outage({"--resync", "check", "--resync-wait-ms", "20000"});
  EXPECT_GE(answer["stats"]["reconnects"], 1);
  for (const auto& mark : provenance(answer)) EXPECT_EQ(mark, "verified");
  EXPECT_EQ(answer["tokens"], plain_answer()["tokens"]);
}

TEST_F(OutageTest, KeepLeavesWhatWasWrittenOffline) {
  const json answer = answer_through_an_outage({"--resync", "keep"});
  EXPECT_EQ(answer["stats"]["rewritten_tokens"], 0);
  const auto marks = provenance(answer);
  EXPECT_EQ(std::count(marks.begin(), marks.end(), "offline"), answer["stats"]["offline_tokens"]);
}

TEST_F(OutageTest, WithoutAnyServerTheDrafterAnswersAlone) {
  const auto client =
      start_client(scratch_, "alone",
                   {"-p", kStory, "--max-tokens", "20", "--server", "127.0.0.1:1", "--pin",
                    "sha256:" + std::string(64, '0'), "--bundle", demo_model("independent")});
  ASSERT_EQ(client->wait(), 0) << client->err();
  const json answer = json::parse(client->out());
  EXPECT_FALSE(answer["tokens"].empty());
  for (const auto& mark : provenance(answer)) EXPECT_EQ(mark, "offline");
}

TEST_F(OutageTest, PlainDecodingHasNobodyToGoOnWithAndSaysSo) {
  const auto client =
      start_client(scratch_, "alone",
                   {"-p", kStory, "--plain", "--server", "127.0.0.1:1", "--pin",
                    "sha256:" + std::string(64, '0'), "--bundle", demo_model("independent")});
  EXPECT_EQ(client->wait(), 3);
  EXPECT_NE(client->err().find("127.0.0.1:1"), std::string::npos) << client->err();
}

}  // namespace
}  // namespace edgedraft::testing
