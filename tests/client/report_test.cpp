#include "client/commands/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace edgedraft::client {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

RunReport report() {
  RunReport report;
  report.text = "the \xC3\xA9\"\n";
  report.tokens = {5, 6, 7};
  report.provenance = {Provenance::verified, Provenance::offline, Provenance::private_};
  report.end = GenerationEnd::end_token;
  report.stats.prompt_tokens = 9;
  report.stats.tokens = 3;
  report.stats.cycles = 2;
  report.stats.cycle_tokens = 5;
  report.stats.target_calls = 4;
  report.stats.drafted = 62;
  report.stats.accepted = 3;
  report.stats.prediction = {.proposed = 20, .accepted = 2};
  report.stats.offline_tokens = 1;
  report.stats.rewritten_tokens = 2;
  report.stats.elapsed = 1500ms;
  report.stats.first_token_elapsed = 250ms;
  report.link.bytes_up = 1000;
  report.link.bytes_down = 70'000;
  report.link.reconnects = 1;
  report.link.traffic.activation_bytes_raw = 80;
  report.link.traffic.activation_bytes_sent = 60;
  report.link.traffic.pad_bytes_out = 300;
  report.link.traffic.pad_bytes_in = 400;
  return report;
}

ClientSettings drafting() {
  ClientSettings config;
  config.generation.tree = TreeShape{};
  config.generation.sampling.seed = 18446744073709551615u;
  return config;
}

// The names that users, tests and experiments read.
TEST(ReportTest, HasEveryStableField) {
  const ClientSettings asked = drafting();
  const ReportedConfig config{.config = asked,
                              .drafter = "moa",
                              .device = "cpu",
                              .device_name = "A processor",
                              .device_reason = "requested",
                              .tokenizer_fingerprint = Digest{}};
  const std::string line = to_json(report(), config);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const json answer = json::parse(line);
  EXPECT_EQ(answer["text"], "the \xC3\xA9\"\n");
  EXPECT_EQ(answer["tokens"], (json{5, 6, 7}));
  EXPECT_EQ(answer["provenance"], (json{"verified", "offline", "private"}));
  EXPECT_EQ(answer["finish"], "end_token");
  const json expected{{"prompt_tokens", 9},
                      {"tokens", 3},
                      {"cycles", 2},
                      {"tau", 2.5},
                      {"target_calls", 4},
                      {"drafted", 62},
                      {"accepted_prediction_tokens", 2},
                      {"rejected_prediction_tokens", 18},
                      {"accepted", 3},
                      {"seconds", 1.5},
                      {"tokens_per_second", 2.0},
                      {"time_to_first_token_s", 0.25},
                      {"bytes_up", 1000},
                      {"bytes_down", 70000},
                      {"activation_bytes_raw", 80},
                      {"activation_bytes_sent", 60},
                      {"pad_bytes_up", 300},
                      {"pad_bytes_down", 400},
                      {"offline_tokens", 1},
                      {"reconnects", 1},
                      {"rewritten_tokens", 2},
                      {"seed", 18446744073709551615u}};
  for (const auto& [name, value] : expected.items()) {
    EXPECT_EQ(answer["stats"][name], value) << name;
    EXPECT_EQ(answer["stats"][name].is_number_integer(), value.is_number_integer()) << name;
  }
  EXPECT_EQ(answer["config"]["drafter"], "moa");
  EXPECT_EQ(answer["config"]["device"], "cpu");
  EXPECT_EQ(answer["config"]["device_name"], "A processor");
  EXPECT_EQ(answer["config"]["device_reason"], "requested");
  EXPECT_EQ(answer["config"]["tree"], (json{{"breadth", 8}, {"depth", 6}, {"nodes", 62}}));
  EXPECT_EQ(answer["config"]["fingerprints"]["tokenizer"], std::string(64, '0'));
  EXPECT_EQ(answer["config"]["fingerprints"]["target"], nullptr);
}

TEST(ReportTest, PlainDecodingHasNoTreeAndTauOfOne) {
  const ClientSettings plain;
  RunReport empty;
  const json answer = json::parse(to_json(empty, {.config = plain}));
  EXPECT_EQ(answer["config"]["tree"], nullptr);
  EXPECT_EQ(answer["stats"]["tau"], 1.0);
  EXPECT_EQ(answer["stats"]["tokens_per_second"], 0.0);
}

TEST(ReportTest, ErrorsHaveCodeAndMessage) {
  const json error = json::parse(to_json(Error{Errc::untrusted, "another \"pin\""}));
  EXPECT_EQ(error["error"]["code"], "untrusted");
  EXPECT_EQ(error["error"]["message"], "another \"pin\"");
}

TEST(ReportTest, LinkCountersCoverOneAnswer) {
  LinkStats before = report().link;
  LinkStats now = before;
  now.bytes_up += 11;
  now.bytes_down += 22;
  now.reconnects += 1;
  now.traffic.activation_bytes_sent += 33;
  now.traffic.activation_bytes_raw += 44;
  const LinkStats answer = now.since(before);
  EXPECT_EQ(answer.bytes_up, 11u);
  EXPECT_EQ(answer.bytes_down, 22u);
  EXPECT_EQ(answer.reconnects, 1u);
  EXPECT_EQ(answer.traffic.activation_bytes_sent, 33u);
  EXPECT_EQ(answer.traffic.activation_bytes_raw, 44u);
}

TEST(ReportTest, AccountNamesOfflineTextOnlyIfPresent) {
  EXPECT_EQ(account(report()),
            "3 tokens in 2 cycles (tau 2.50), 4 target passes, 3 of 62 drafted accepted, "
            "2 of 20 from the prediction; 1000 B "
            "up, 70.0 kB down; 500.0 ms per token; 1 written offline, 2 rewritten");
  RunReport online = report();
  online.stats.offline_tokens = 0;
  EXPECT_EQ(account(online).find("offline"), std::string::npos);
}

TEST(ReportTest, AccountStatesWhyNothingWasDrafted) {
  RunReport streamed = report();
  streamed.stats.offline_tokens = streamed.stats.drafted = streamed.stats.accepted = 0;
  streamed.stats.streamed_because = "the server's stream is faster";
  EXPECT_EQ(account(streamed),
            "3 tokens, 4 target passes, nothing drafted (the server's stream is faster); 1000 B "
            "up, 70.0 kB down; 500.0 ms per token");
  RunReport offline = streamed;
  offline.stats.streamed_because.clear();
  offline.stats.cycles = offline.stats.cycle_tokens = offline.stats.target_calls = 0;
  offline.stats.offline_tokens = 3;
  EXPECT_TRUE(account(offline).starts_with("3 tokens; 1000 B up")) << account(offline);
}

TEST(ReportTest, AccountStatesWhereAnswerWasCut) {
  RunReport cut = report();
  EXPECT_EQ(account(cut).find("cut"), std::string::npos);
  cut.end = GenerationEnd::context;
  cut.provenance.back() = Provenance::verified;
  EXPECT_TRUE(account(cut).ends_with("; cut at the end of the context")) << account(cut);
  cut.provenance.back() = Provenance::offline;
  EXPECT_TRUE(
      account(cut).ends_with("; cut at the end of the context of the drafter on this device"))
      << account(cut);
}

TEST(ReportTest, AccountAttributesBytesOfPrivateAnswerToSignIn) {
  RunReport here = report();
  here.provenance.assign(3, Provenance::private_);
  here.stats.target_calls = here.stats.drafted = 0;
  EXPECT_NE(account(here).find("1000 B up, 70.0 kB down (sign-in only)"), std::string::npos)
      << account(here);
}

}  // namespace
}  // namespace edgedraft::client
