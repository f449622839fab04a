#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "shared/net/identity.h"
#include "tests/e2e/process.h"
#include "tests/e2e/programs.h"
#include "tests/e2e/server_metrics.h"
#include "tests/net/raw_peer.h"
#include "tests/support/demo_prompts.h"
#include "tests/support/expect.h"

// Operating a server: metrics, draining, reload and log.
namespace edgedraft::testing {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

const Options kMonitored{"--metrics", "127.0.0.1:0"};
// Slow enough that an answer takes some seconds.
const Options kMonitoredAndPaced{"--metrics", "127.0.0.1:0", "--pace-ms", "150"};

class OperationsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Process> start(const Server& server, const Options& more = {}) {
    return start_with_pin(server, server.pin(), more);
  }

  std::unique_ptr<Process> start_with_pin(const Server& server, const std::string& pin,
                                          const Options& more = {}) {
    Options options{
        "--max-tokens",        "60", "--pin", pin, "--server", server.address(), "--bundle",
        demo_model("moa-tli0")};
    if (std::ranges::find(more, "-p") == more.end()) options = joined(options, {"-p", kStory});
    return start_client(scratch_, "client" + std::to_string(clients_++), joined(options, more));
  }

  static void expect_all(const json& answer, const std::string& provenance) {
    for (const auto& mark : answer["provenance"]) EXPECT_EQ(mark, provenance);
  }

  static std::string get(Server& server, const std::string& path) {
    return metrics_page(server.process(), path);
  }
  static std::map<std::string, double> samples(Server& server) {
    return metrics_of(server.process());
  }

  // Waits until the server has reloaded its files and said so.
  static void reload(Server& server, const std::string& says) {
    server.process().signal(SIGHUP);
    ASSERT_TRUE(server.process().wait_for_error(says)) << server.process().err();
  }
  static void expect_orderly_end(Server& server) {
    server.process().signal(SIGTERM);
    EXPECT_EQ(server.process().wait(), 0);
  }

  // Waits until the server has generated a few tokens.
  static void wait_for_an_answer(Server& server) { wait_for_tokens(server.process(), 5); }

  test::TemporaryDirectory scratch_;
  int clients_ = 0;
};

TEST_F(OperationsTest, MetricsMatchClientStatistics) {
  Server server(scratch_, kMonitored);
  EXPECT_TRUE(get(server, "/health").starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(get(server, "/ready").starts_with("HTTP/1.1 200 "));
  // Without lockstep the server may be ahead of the client when the answer ends.
  const auto drafting = start(server, {"--hold", "lockstep"});
  const json stats = output_of(*drafting)["stats"];
  auto s = samples(server);
  EXPECT_EQ(s["prompt_tokens_total"], stats["prompt_tokens"]);
  EXPECT_EQ(s["time_to_first_token_seconds_count"], 1);
  EXPECT_EQ(s["passes_total"], stats["target_calls"]);
  EXPECT_EQ(s["spec_decode_num_draft_tokens_total"], stats["drafted"]);
  EXPECT_EQ(s["spec_decode_num_accepted_tokens_total"], stats["accepted"]);
  // The last draft may bring more tokens than requested.
  EXPECT_GE(s["generation_tokens_total"], stats["tokens"]);
  // One token per round, plus the accepted ones.
  EXPECT_EQ(s["generation_tokens_total"], s["spec_decode_num_accepted_tokens_total"] +
                                              s["round_seconds_count{phase=\"verify\"}"]);
  EXPECT_EQ(s["sessions"], 1);
  EXPECT_EQ(s["connections_total"], 1);
  EXPECT_GT(s["tls_certificate_expiry_timestamp_seconds"], 1.7e9);

  {
    const std::string& address = server.address();
    RawPeer stranger(static_cast<std::uint16_t>(std::stoul(address.substr(address.find(':') + 1))));
    stranger.write("GET / HTTP/1.1\r\n\r\n");
    stranger.read_to_end();
  }
  // The server may still be closing both connections.
  while (samples(server)["connections"] > 0) std::this_thread::sleep_for(10ms);
  s = samples(server);
  EXPECT_EQ(s["connections_total"], 2);
  EXPECT_EQ(s["connections_rejected_total{reason=\"tls\"}"], 1);
  EXPECT_GE(s["link_bytes_total{dir=\"up\"}"], stats["bytes_up"]);
  EXPECT_GE(s["link_bytes_total{dir=\"down\"}"], stats["bytes_down"]);
  EXPECT_EQ(s["link_activation_bytes_total"], stats["activation_bytes_sent"]);
}

// Reading the index from a pipe without a writer blocks until the signal.
TEST_F(OperationsTest, IsHealthyNotReadyAndStoppableWhileLoading) {
  const std::string index = scratch_ / "index";
  ASSERT_EQ(mkfifo(index.c_str(), 0600), 0);
  Process server({EDGEDRAFT_SERVER, "--model", demo_model("target"), "--bundle",
                  demo_model("moa-tli0"), "--index", index, "--listen", "127.0.0.1:0", "--state",
                  scratch_ / "state", "--metrics", "127.0.0.1:0"},
                 scratch_ / "server");
  ASSERT_TRUE(server.wait_for_error("computing on")) << server.err();
  EXPECT_TRUE(metrics_page(server, "/health").starts_with("HTTP/1.1 200 "));
  const std::string ready = metrics_page(server, "/ready");
  EXPECT_TRUE(ready.starts_with("HTTP/1.1 503 ")) << ready;
  EXPECT_TRUE(contains(ready, "loading"));
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 128 + SIGTERM) << server.err();
}

TEST_F(OperationsTest, WarnsOfMetricsBeyondLoopback) {
  Server server(scratch_, {"--metrics", "0.0.0.0:0"});
  EXPECT_TRUE(contains(server.process().err(), "anyone who can reach this address"));
  Server quiet(scratch_, kMonitored);
  EXPECT_EQ(quiet.process().err().find("anyone who can reach"), std::string::npos);
}

TEST_F(OperationsTest, NamesInvalidMetricsAddress) {
  for (const auto& [address, status] :
       std::map<std::string, int>{{"nonsense", 2}, {"1.2.3.4:1", 1}}) {
    const Options options{"--model",     demo_model("target"), "--listen",
                          "127.0.0.1:0", "--metrics",          address};
    EXPECT_TRUE(contains(refusal_of_server(scratch_, options, status), "--metrics"));
  }
}

// docs/operations.md states 7.5 MiB for the demo's target.
TEST_F(OperationsTest, ReportsActualSessionMemory) {
  const Options options{"--model",  demo_model("target"), "--bundle",  demo_model("moa-tli0"),
                        "--listen", "127.0.0.1:0",        "--measure", "0"};
  EXPECT_TRUE(contains(refusal_of_server(scratch_, joined(options, {"--kv-memory", "7MB"})),
                       "a session of 1024 tokens takes 7.5 MiB; give 8MB or more"));
  // The server would start but never draft.
  const Options drafting = joined(options, {"--kv-memory", "8MB", "--speculate", "auto"});
  EXPECT_TRUE(contains(refusal_of_server(scratch_, drafting),
                       "takes 7.5 MiB, and its drafter for --speculate"));
  Process server(joined(joined({EDGEDRAFT_SERVER, "--state", scratch_ / "state"}, options),
                        {"--kv-memory", "8MB"}),
                 scratch_ / "server");
  ASSERT_TRUE(server.wait_for_output("ready")) << server.err();
  EXPECT_TRUE(
      contains(server.err(), "at most 7.5 MiB per session with a KV cache in f32, 1 drafter\n"));
}

TEST_F(OperationsTest, SigtermLetsRunningAnswerFinish) {
  Server server(scratch_, kMonitoredAndPaced);
  const auto client = start(server);
  wait_for_an_answer(server);
  server.process().signal(SIGTERM);
  ASSERT_TRUE(server.process().wait_for_error("stopping"));
  const std::string ready = get(server, "/ready");
  EXPECT_TRUE(ready.starts_with("HTTP/1.1 503 ")) << ready;
  EXPECT_TRUE(contains(ready, "draining"));
  const auto late = start(server, {"--offline-bundle", demo_model("independent")});
  expect_all(output_of(*client), "verified");
  EXPECT_EQ(server.process().wait(), 0);
  expect_all(output_of(*late), "offline");
}

TEST_F(OperationsTest, ClientsContinueOfflineAfterDrainTimeout) {
  Server server(scratch_, joined(kMonitoredAndPaced, {"--drain-timeout", "0"}));
  const auto client = start(server);
  wait_for_an_answer(server);
  expect_orderly_end(server);
  const json answer = output_of(*client);
  EXPECT_EQ(answer["provenance"].front(), "verified");
  EXPECT_EQ(answer["provenance"].back(), "offline");
}

TEST_F(OperationsTest, SecondSignalEndsServerAtOnce) {
  Server server(scratch_, kMonitoredAndPaced);
  const auto client = start(server);
  wait_for_an_answer(server);
  server.process().signal(SIGTERM);
  ASSERT_TRUE(server.process().wait_for_error("stopping"));
  server.process().signal(SIGTERM);
  EXPECT_EQ(server.process().wait(), 128 + SIGTERM);
}

TEST_F(OperationsTest, SighupReloadsCertificateAndToken) {
  const auto first = load_or_create_identity(scratch_ / "first").value();
  const auto second = load_or_create_identity(scratch_ / "second").value();
  const auto certificate = scratch_ / "cert.pem";
  const auto key = scratch_ / "key.pem";
  const auto token = scratch_ / "token";
  const auto install = [&](const TlsIdentity& identity) {
    constexpr auto kReplace = std::filesystem::copy_options::overwrite_existing;
    std::filesystem::copy_file(identity.certificate_file, certificate, kReplace);
    std::filesystem::copy_file(identity.key_file, key, kReplace);
  };
  install(first);
  scratch_.write_secret("token", "old\n");
  Server server(scratch_, {"--tls-cert", certificate, "--tls-key", key, "--token-file", token});
  EXPECT_EQ(server.pin(), first.pin);
  const Options with_token{"--token-file", token};
  output_of(*start(server, with_token));

  install(second);
  std::ofstream(token) << "new\n";
  reload(server, "reloaded for new connections");
  expect_all(output_of(*start_with_pin(server, second.pin, with_token)), "verified");
  EXPECT_EQ(start_with_pin(server, first.pin, with_token)->wait(), 4);
  scratch_.write_secret("old-token", "old\n");
  EXPECT_EQ(start_with_pin(server, second.pin, {"--token-file", scratch_ / "old-token"})->wait(),
            4);

  // First another certificate's key, then no file: the server keeps its identity each time.
  install(first);
  std::filesystem::copy_file(second.key_file, key,
                             std::filesystem::copy_options::overwrite_existing);
  reload(server, "is not the key of the certificate");
  expect_all(output_of(*start_with_pin(server, second.pin, with_token)), "verified");
  std::filesystem::remove(certificate);
  reload(server, "No such file");
  expect_all(output_of(*start_with_pin(server, second.pin, with_token)), "verified");
  expect_orderly_end(server);
}

TEST_F(OperationsTest, SighupKeepsTokenIfFileIsInvalid) {
  const auto token = scratch_.write_secret("token", "old\n");
  Server server(scratch_, {"--token-file", token});
  for (const char* text : {"\n", "", "\nold\n", "old\nnew\n"}) {
    std::ofstream(token) << text;
    const std::size_t said = server.process().err().size();
    server.process().signal(SIGHUP);
    while (server.process().err().find("nothing was reloaded", said) == std::string::npos) {
      ASSERT_TRUE(server.process().running());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_NE(server.process().err().find("--token-file", said), std::string::npos);
    EXPECT_EQ(start(server)->wait(), 4) << "clients without a token are refused";
  }
  scratch_.write_secret("token", "old\n");
  expect_all(output_of(*start(server, {"--token-file", token})), "verified");
}

// Clients pin the identity, so a new one would lock them out.
TEST_F(OperationsTest, SighupKeepsIdentityIfItsFilesAreGone) {
  Server server(scratch_);
  std::filesystem::remove_all(scratch_ / "server-state");
  reload(server, "nothing was reloaded");
  expect_all(output_of(*start(server)), "verified");
  expect_orderly_end(server);
}

// A pipe can be read only once; a second read would block.
TEST_F(OperationsTest, SighupKeepsTokenReadFromPipe) {
  const std::string pipe = scratch_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << "old\n"; });
  Server server(scratch_, {"--token-file", pipe});
  writer.join();
  reload(server, "reloaded for new connections");
  EXPECT_EQ(start(server)->wait(), 4) << "clients without a token are refused";
  const auto token = scratch_.write_secret("token", "old\n");
  expect_all(output_of(*start(server, {"--token-file", token})), "verified");
  expect_orderly_end(server);
}

// The token was replaced deliberately, so it stays invalid even if the token file is gone.
TEST_F(OperationsTest, SighupNeverRestoresReplacedToken) {
  const auto token = scratch_.write_secret("token", "old\n");
  const auto old_token = scratch_.write_secret("old-token", "old\n");
  const auto new_token = scratch_.write_secret("new-token", "new\n");
  Server server(scratch_, {"--token-file", token});
  scratch_.write_secret("token", "new\n");
  reload(server, "token reloaded for new connections");
  std::filesystem::remove(token);
  std::filesystem::create_directory(token);
  reload(server, "nothing was reloaded");
  std::filesystem::remove(token);
  ASSERT_EQ(::mkfifo(token.c_str(), 0600), 0);
  reload(server, "the token is unchanged");
  EXPECT_EQ(start(server, {"--token-file", old_token})->wait(), 4);
  expect_all(output_of(*start(server, {"--token-file", new_token})), "verified");
}

// Even at the highest log level the server logs neither prompts nor answers.
TEST_F(OperationsTest, LogContainsNoPromptsOrAnswers) {
  Server server(scratch_, {"--log-level", "trace", "--log-format", "json"});
  const std::string secret = "xylophone quartz 8675309";
  const auto client = start(server, {"-p", "What is a " + secret + "?"});
  const json answer = output_of(*client);
  expect_orderly_end(server);

  std::istringstream log(server.process().err());
  std::string all;
  std::string line;
  while (std::getline(log, line)) {
    if (!line.starts_with('{')) continue;  // a progress bar
    const json event = json::parse(line);
    EXPECT_FALSE(event["time"].get<std::string>().empty());
    EXPECT_FALSE(event["level"].get<std::string>().empty());
    all += event["message"].get<std::string>() + '\n';
  }
  EXPECT_TRUE(contains(all, " (edgedraft ")) << "names program and version: " << all;
  EXPECT_TRUE(contains(all, ") signed in with moa-tli0\n"));
  EXPECT_TRUE(contains(all, "disconnected"));
  for (const std::string word : {"xylophone", "quartz", "8675309"}) {
    EXPECT_EQ(all.find(word), std::string::npos) << all;
  }
  const auto text = answer["text"].get<std::string>();
  ASSERT_GE(text.size(), 12u);
  for (std::size_t i = 0; i + 12 <= text.size(); i += 12) {
    EXPECT_EQ(all.find(text.substr(i, 12)), std::string::npos) << all;
  }
  std::string ids;
  for (const auto& token : answer["tokens"]) ids += token.dump() + ", ";
  EXPECT_EQ(all.find(ids.substr(0, 12)), std::string::npos) << all;
}

}  // namespace
}  // namespace edgedraft::testing
