#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <boost/system/system_error.hpp>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "shared/base/random.h"
#include "tests/e2e/process.h"
#include "tests/e2e/programs.h"
#include "tests/e2e/server_metrics.h"
#include "tests/support/demo_prompts.h"
#include "tests/support/expect.h"
#include "tests/support/http_client.h"

// `edgedraft serve` between programs and a server that comes and goes.
namespace edgedraft::testing {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

// Slow enough that a kill falls into an answer.
const Options kPaced{"--metrics", "127.0.0.1:0", "--pace-ms", "100"};

class Endpoint {
 public:
  Endpoint(const test::TemporaryDirectory& scratch, const Options& server,
           const Options& options = {})
      : process_(joined(joined({EDGEDRAFT_CLIENT, "serve", "--listen", "127.0.0.1:0", "--bundle",
                                demo_model("moa-tli0")},
                               server),
                        options),
                 scratch / "serve") {
    if (!process_.wait_for_output("\n")) throw std::runtime_error(process_.err());
    // "ready http://127.0.0.1:PORT/v1 model NAME"
    const std::string ready = process_.out();
    port_ = static_cast<std::uint16_t>(std::stoi(ready.substr(ready.find(":", 12) + 1)));
  }

  std::uint16_t port() const { return port_; }
  Process& process() { return process_; }
  HttpResult post(json fields) const {
    fields["messages"] = {{{"role", "user"}, {"content", kStory}}};
    return ask(port_, {.method = "POST", .path = "/v1/chat/completions", .body = fields.dump()});
  }
  std::uint64_t metric(const std::string& name) const {
    const std::string metrics = ask(port_, {.path = "/metrics"}).body;
    const std::string before = "\nedgedraft_client:" + name + ' ';
    const std::size_t at = metrics.find(before);
    if (at != std::string::npos) return std::stoull(metrics.substr(at + before.size()));
    ADD_FAILURE() << "no " << name << " in " << metrics;
    return std::numeric_limits<std::uint64_t>::max();
  }
  json answer(const json& fields) const {
    const HttpResult result = post(fields);
    EXPECT_EQ(result.status, 200u) << result.body;
    return json::parse(result.body)["choices"][0];
  }

 private:
  Process process_;
  std::uint16_t port_ = 0;
};

// A stream as a client assembles it, corrections included.
struct Read {
  std::string content;
  std::uint32_t revisions = 0;
  std::uint32_t offline_events = 0;
  json last;  // last event with a choice
  bool done = false;
};

Read read(const std::string& stream) {
  Read read;
  for (const std::string& data : event_data(stream)) {
    if (data == "[DONE]") {
      read.done = true;
      break;
    }
    const json event = json::parse(data);
    if (event.contains("error") || event["choices"].empty()) continue;
    read.last = event;
    const json ours = event.value("x_edgedraft", json::object());
    if (ours.contains("revise_from")) {
      ++read.revisions;
      read.content.resize(ours["revise_from"]);  // the demo writes ASCII
    }
    if (ours.value("provenance", "") == "offline") ++read.offline_events;
    const json& delta = event["choices"][0]["delta"];
    if (delta.contains("content")) read.content += delta["content"];
  }
  return read;
}

class ServeTest : public ::testing::Test {
 protected:
  // The target's answer without faults.
  std::string plain_answer() {
    return answer_from(Server(scratch_), scratch_, demo_model("moa-tli0"),
                       {"-p", kStory, "--max-tokens", "80", "--plain"})["text"];
  }

  // A stream during which the server is killed and comes back after `away`.
  Read stream_through_an_outage(const json& policy, std::chrono::milliseconds away,
                                const Options& options = {}) {
    auto server = std::make_unique<Server>(scratch_, kPaced);
    const std::string address = server->address();
    const Endpoint endpoint(scratch_, with_server(*server), options);
    HttpResult result;
    std::thread asking([&] {
      result = endpoint.post({{"stream", true}, {"max_tokens", 80}, {"offline", policy}});
    });
    wait_for_tokens(server->process(), kIntoTheAnswer);
    server->process().signal(SIGKILL);
    server->process().wait();
    std::this_thread::sleep_for(away);
    server = std::make_unique<Server>(scratch_, Options{}, address);
    asking.join();
    EXPECT_EQ(result.status, 200u) << result.body;
    return read(result.body);
  }

  test::TemporaryDirectory scratch_;
};

TEST_F(ServeTest, LittleMemoryServesFewerConversationsAtOnce) {
  const std::string expected = plain_answer();
  const Server server(scratch_);
  const DrafterMemory memory = drafter_memory(scratch_, "moa-tli0");
  const std::uint64_t limit = memory.shared + 2 * memory.conversation;
  Endpoint endpoint(scratch_, with_server(server),
                    {"--device", "cpu", "--conversations", "8", "--hold", "lockstep", "--memory",
                     std::to_string(limit)});
  EXPECT_TRUE(endpoint.process().wait_for_error("2 conversations at once, not 8"));

  std::vector<std::string> contents(8);
  std::vector<std::thread> asking;
  for (std::string& content : contents) {
    asking.emplace_back([&] {
      content = endpoint.answer({{"max_tokens", 80}})["message"]["content"];
    });
  }
  for (std::thread& thread : asking) thread.join();
  for (const std::string& content : contents) EXPECT_EQ(content, expected);

  const std::uint64_t peak = endpoint.metric("memory_peak_bytes");
  EXPECT_GT(peak, memory.shared);
  EXPECT_LE(peak, limit);
}

TEST_F(ServeTest, ShortOutageIsInvisibleToPlainClient) {
  const Read seen = stream_through_an_outage("keep", 300ms, {"--hold-ms", "60000"});
  EXPECT_TRUE(seen.done);
  EXPECT_EQ(seen.content, plain_answer());
  EXPECT_EQ(seen.revisions, 0u);
  EXPECT_EQ(seen.offline_events, 0u);
  EXPECT_EQ(seen.last["x_edgedraft"]["offline_tokens"], 0);
  EXPECT_GT(seen.last["x_edgedraft"]["resyncs"], 0);
}

// Simulates a change of the device's address. Its connection ends silently, and the server still
// has the session when the next connection arrives.
TEST_F(ServeTest, AddressChangeLosesAndRepeatsNothing) {
  Server server(scratch_, kPaced);
  const Endpoint endpoint(scratch_, with_server(server), {"--hold-ms", "60000"});
  HttpResult result;
  std::thread asking([&] {
    result = endpoint.post({{"stream", true}, {"max_tokens", 80}, {"offline", "keep"}});
  });
  double tokens = 0;
  for (int change = 0; change < 2; ++change) {
    tokens = wait_for_tokens(server.process(), tokens + kIntoTheAnswer);
    for (const char* const plug : {R"({"plugged": false})", R"({"plugged": true})"}) {
      EXPECT_EQ(ask(endpoint.port(), {.method = "PUT", .path = "/v1/edgedraft/link", .body = plug})
                    .status,
                200u);
    }
  }
  asking.join();
  const Read seen = read(result.body);
  EXPECT_TRUE(seen.done);
  EXPECT_EQ(seen.content, plain_answer());
  EXPECT_EQ(seen.revisions, 0u);
  EXPECT_GT(seen.last["x_edgedraft"]["resyncs"], 0);
}

TEST_F(ServeTest, WaitPolicyGivesTargetTextOnly) {
  const Read seen = stream_through_an_outage("wait", 1500ms, {"--hold-ms", "0"});
  EXPECT_TRUE(seen.done);
  EXPECT_EQ(seen.content, plain_answer());
  EXPECT_EQ(seen.offline_events, 0u);
}

TEST_F(ServeTest, RevisePolicyShowsTextAndThenItsCorrection) {
  const Read seen = stream_through_an_outage("revise", 1500ms, {"--hold-ms", "60000"});
  EXPECT_TRUE(seen.done);
  EXPECT_EQ(seen.content, plain_answer());
  EXPECT_GT(seen.offline_events, 0u);
  EXPECT_EQ(seen.revisions, 1u);
}

TEST_F(ServeTest, KeepPolicyRetainsAndLabelsOfflineText) {
  const Read seen = stream_through_an_outage("keep", 1500ms, {"--hold-ms", "200"});
  EXPECT_TRUE(seen.done);
  EXPECT_EQ(seen.revisions, 0u);
  EXPECT_GT(seen.offline_events, 0u);
  EXPECT_GT(seen.last["x_edgedraft"]["offline_tokens"], 0);
  EXPECT_NE(seen.content, plain_answer());
}

TEST_F(ServeTest, StartsWithoutNetworkAndConnectsLater) {
  const Options later = with_server(Server(scratch_));
  Endpoint endpoint(scratch_, later,
                    {"--hold-ms", "100", "--offline-bundle", demo_model("independent")});
  const json alone = endpoint.answer({{"max_tokens", 20}});
  EXPECT_GT(alone["x_edgedraft"]["offline_tokens"], 0);
  json waited;
  std::thread asking([&] { waited = endpoint.answer({{"max_tokens", 20}, {"offline", "wait"}}); });
  while (endpoint.metric("requests_processing") < 1) std::this_thread::sleep_for(10ms);
  const Server server(scratch_, {}, later[1]);
  asking.join();
  EXPECT_EQ(waited["x_edgedraft"]["offline_tokens"], 0);
  EXPECT_EQ(waited["x_edgedraft"]["tokens"], 20);
  EXPECT_TRUE(plain_answer().starts_with(waited["message"]["content"].get<std::string>()));
  endpoint.process().signal(SIGTERM);
  EXPECT_EQ(endpoint.process().wait(10s), 0) << endpoint.process().err();
}

TEST_F(ServeTest, TargetDependentDrafterRefusesWithoutServer) {
  const Endpoint endpoint(scratch_, kNoServer, {"--hold-ms", "100"});
  const auto target = [&] {
    return json::parse(ask(endpoint.port(), {.path = "/health"}).body)["target"];
  };
  EXPECT_EQ(target(), "unknown");
  const HttpResult refused = endpoint.post({{"max_tokens", 5}});
  EXPECT_EQ(refused.status, 503u);
  EXPECT_FALSE(refused.header("Retry-After").empty());
  EXPECT_TRUE(contains(refused.body, "--offline-bundle"));
  EXPECT_EQ(target(), "away");
}

// Checks both sides' logs at the highest level, the page's file, counters, settings and the bytes
// sent.
TEST_F(ServeTest, FilesAndReportsContainNoPrivateText) {
  const Server server(scratch_, {"--log-level", "trace"});
  Endpoint endpoint(scratch_, with_server(server),
                    {"--log-level", "trace", "--page", (scratch_ / "page.db").string(),
                     "--offline-bundle", demo_model("independent")});
  const auto send = [&](const std::string& method, const std::string& path, const json& body) {
    return ask(endpoint.port(), {.method = method, .path = path, .body = body.dump()});
  };
  const std::string marked = "My word is <private>canaryseven</private>, c@canaryseven.org.";
  const json asked = {{"role", "user"}, {"content", marked}};
  for (const char* const mode : {"mask", "local", "prefix"}) {
    for (const bool streams : {false, true}) {
      const json body = {{"messages", {asked}},
                         {"private", mode},
                         {"stream", streams},
                         {"stop", {"canaryseven!"}},
                         {"max_tokens", 20}};
      EXPECT_EQ(send("POST", "/v1/chat/completions", body).status, 200u);
    }
  }
  const json again = {{"messages", {{{"role", "user"}, {"content", "A title: CanarySeven"}}}}};
  EXPECT_EQ(send("POST", "/v1/chat/completions", again).status, 200u);
  for (const json& wrong : {json{{"messages", {asked}}, {"top_k", marked}},
                            json{{"messages", {asked}}, {"grammar", marked}},
                            json{{"messages", {{{"role", marked}}}}}}) {
    EXPECT_EQ(send("POST", "/v1/chat/completions", wrong).status, 400u);
  }
  const std::string page = "/v1/edgedraft/conversation?id=0123456789abcdef";
  const json kept = {
      {"title", "canaryseven"}, {"private", true}, {"document", {{"turns", {asked}}}}};
  EXPECT_EQ(send("PUT", page, kept).status, 200u);

  std::string told;
  for (const char* const path : {"/metrics", "/props", "/v1/models", "/v1/edgedraft/uplink"}) {
    told += ask(endpoint.port(), {.path = path}).body;
  }
  const std::string all_limits =
      test::file_text("/proc/" + std::to_string(endpoint.process().id()) + "/limits");
  EXPECT_NE(all_limits.find("Max core file size        0                    0"), std::string::npos);
  endpoint.process().signal(SIGTERM);
  EXPECT_EQ(endpoint.process().wait(10s), 0) << endpoint.process().err();
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(scratch_.path())) {
    if (!entry.is_regular_file()) continue;
    told += test::file_text(entry.path());
    ++files;
  }
  EXPECT_GE(files, 5u);
  std::ranges::transform(told, told.begin(), [](unsigned char c) { return std::tolower(c); });
  EXPECT_NE(told.find("text_001"), std::string::npos) << "the files hold the placeholder";
  EXPECT_EQ(told.find("canaryseven"), std::string::npos)
      << told.substr(told.find("canaryseven") - 200, 300);
}

// Number of times the endpoint is killed.
int kill_count() {
  const char* const wanted = std::getenv("EDGEDRAFT_TEST_KILLS");
  return wanted != nullptr ? std::stoi(wanted) : 10;
}

// True if the endpoint holds `wanted`, or `wanted` plus the pending answer. An endpoint saves a
// complete answer to the page's conversation without waiting for the page.
bool holds(const json& turns, const json& wanted, const std::string& answer) {
  if (turns == wanted) return true;
  if (wanted.empty() || !wanted.back().contains("stream") || turns.size() != wanted.size())
    return false;
  json settled = wanted;
  settled.back().erase("stream");
  settled.back()["answer"] = turns.back().value("answer", json::object());
  return turns == settled && settled.back()["answer"].value("finished", false) &&
         settled.back()["answer"].value("text", "") == answer;
}

// Acts as the page does: saves the conversation with each question, asks, and saves the answer.
TEST_F(ServeTest, LosesAndDoublesNoTurnWhenKilledDuringAnswers) {
  const Server server(scratch_);
  const Options options{"--page", scratch_ / "conversations.db"};
  const std::string path = "/v1/edgedraft/conversation?id=5f0c2f7e-8a64-4b61-9d3e-0d9a4f2d9b11";
  Random random(7);
  json saved = json::array();   // turns that the endpoint confirmed
  json saving = json::array();  // with the turns being saved at the kill
  const json asked{{"messages", {{{"role", "user"}, {"content", kStory}}}},
                   {"stream", true},
                   {"max_tokens", 20}};
  std::string answer;
  int in_mid_answer = 0;
  for (int kill = 0; kill < kill_count(); ++kill) {
    Endpoint endpoint(scratch_, with_server(server), options);
    const HttpResult found = ask(endpoint.port(), {.path = path});
    json turns = json::array();
    if (found.status == 200) turns = json::parse(found.body)["turns"];
    if (answer.empty()) {
      answer = endpoint.answer({{"max_tokens", 20}})["message"]["content"];
    }
    ASSERT_TRUE(holds(turns, saved, answer) || holds(turns, saving, answer))
        << kill << ": " << found.body;
    saved = saving = turns;
    std::thread killing([&, after = std::chrono::milliseconds(random.below(250))] {
      std::this_thread::sleep_for(after);
      endpoint.process().signal(SIGKILL);
    });
    const auto save = [&](json now) {
      saving = std::move(now);
      const json body{{"title", "A story"}, {"document", {{"turns", saving}}}};
      if (ask(endpoint.port(), {.method = "PUT", .path = path, .body = body.dump()}).status == 200)
        saved = saving;
    };
    try {
      for (int question = 0;; ++question) {
        const std::string number = std::to_string(100 * kill + question);
        const std::string stream =
            "9f86d081884c7d659a2feaa0" + std::string(8 - number.size(), '0') + number;
        if (!turns.empty() && turns.back().contains("stream")) turns.erase(turns.size() - 1);
        turns.push_back({{"role", "user"}, {"content", "Question " + number}});
        turns.push_back({{"role", "assistant"}, {"stream", stream}, {"private", false}});
        save(turns);
        ++in_mid_answer;
        (void)ask(endpoint.port(), {.method = "POST",
                                    .path = "/v1/chat/completions",
                                    .headers = {{"X-Conversation-Id", stream}},
                                    .body = asked.dump()});
        --in_mid_answer;
        turns.back() = {{"role", "assistant"}, {"answer", {{"text", "Once"}}}};
        save(turns);
      }
    } catch (const boost::system::system_error&) {
      // The endpoint was killed.
    }
    killing.join();
    endpoint.process().wait();
  }
  EXPECT_GT(saved.size(), 2u);
  EXPECT_GT(in_mid_answer, 0);
}

TEST_F(ServeTest, ReportsUntrustedServer) {
  const Server server(scratch_);
  const Endpoint endpoint(scratch_, {"--server", server.address(), "--pin", kNoServer[3]});
  const HttpResult result = endpoint.post({{"offline", "wait"}});
  EXPECT_EQ(result.status, 502u) << result.body;
  EXPECT_EQ(json::parse(result.body)["error"]["code"], "untrusted");
}

// No restart is needed, which could lose conversations.
TEST_F(ServeTest, NextPromptUsesCorrectedToken) {
  const auto own = scratch_.write_secret("own-token", "old\n");
  const Server server(scratch_, {"--token-file", scratch_.write_secret("token", "new\n")});
  const Endpoint endpoint(scratch_, with_server(server), {"--token-file", own});
  const HttpResult refused = endpoint.post({{"max_tokens", 5}, {"offline", "wait"}});
  EXPECT_NE(refused.status, 200u);
  EXPECT_TRUE(contains(refused.body, "token"));
  std::ofstream(own) << "new\n";
  const json answer = endpoint.answer({{"max_tokens", 5}, {"offline", "wait"}});
  EXPECT_EQ(answer["x_edgedraft"]["offline_tokens"], 0);
}

TEST_F(ServeTest, ExplainsInvalidOptions) {
  const auto expect_mistake = [&](const Options& options, int status, const std::string& says) {
    const Options command{EDGEDRAFT_CLIENT, "serve", "--bundle", demo_model("moa-tli0")};
    Process process(joined(command, options), scratch_ / "wrong");
    EXPECT_EQ(process.wait(), status);
    EXPECT_TRUE(contains(process.err(), says));
  };
  const std::string key = scratch_.write_secret("key", "secret\n");
  expect_mistake({"--listen", "0.0.0.0:0"}, 2, "--api-key-file");
  expect_mistake({"--listen", "nowhere"}, 2, "--listen");
  expect_mistake({"--listen", "192.0.2.1:0", "--api-key-file", key}, 1, "--listen 192.0.2.1:0: ");
  expect_mistake({"--offline", "maybe"}, 2, "{wait,keep,revise}");
  expect_mistake({"--api-key-file", "/nowhere"}, 1, "--api-key-file");
}

}  // namespace
}  // namespace edgedraft::testing
