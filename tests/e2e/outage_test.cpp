#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "shared/base/clock.h"
#include "tests/e2e/process.h"
#include "tests/e2e/server_metrics.h"
#include "tests/model/hf_directory.h"
#include "tests/support/demo_prompts.h"

namespace edgedraft::testing {
namespace {

using nlohmann::json;
using Options = std::vector<std::string>;

// Slow enough a target that the kill comes in mid-answer: a whole answer takes some four seconds.
const Options kSlowlyPaced{"--metrics", "127.0.0.1:0", "--pace-ms", "250"};

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
    auto server = std::make_unique<Server>(scratch_, kSlowlyPaced);
    Options options = common(*server);
    options.insert(options.end(), {"--pace-ms", "30"});
    options.insert(options.end(), resync.begin(), resync.end());
    const json answer = answer_while_it_is_killed(std::move(server), options, {});
    EXPECT_GT(answer["stats"]["offline_tokens"], 0);
    return answer;
  }

  // A client's, whose server is killed in the middle and comes back with `server_options`.
  json answer_while_it_is_killed(std::unique_ptr<Server> server, const Options& client_options,
                                 const Options& server_options) {
    const auto client = start_client(scratch_, "client", client_options);
    wait_for_tokens(server->process(), kIntoTheAnswer);
    server->process().signal(SIGKILL);
    server->process().wait();
    EXPECT_TRUE(client->wait_for_error("offline: ")) << client->err();
    const std::string address = server->address();
    server = std::make_unique<Server>(scratch_, server_options, address);
    EXPECT_EQ(client->wait(), 0) << client->err();
    return json::parse(client->out());
  }

  static std::vector<std::string> provenance(const json& answer) {
    return answer["provenance"].get<std::vector<std::string>>();
  }

  test::TemporaryDirectory scratch_;
};

TEST_F(OutageTest, TheAnswerGoesOnWhenTheServerIsKilled) {
  Server server(scratch_, kSlowlyPaced);
  const auto client = start_client(scratch_, "client", common(server));
  wait_for_tokens(server.process(), kIntoTheAnswer);
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

// Drafters that read features, with weights that have learned nothing: what they propose, and write
// offline, is wrong nearly always. MEDUSA cannot write, so another bundle does.
class FeatureDrafterOutageTest : public OutageTest,
                                 public ::testing::WithParamInterface<const char*> {
 protected:
  FeatureDrafterOutageTest() {
    constexpr std::uint64_t kDim = 384;  // of the demo's target
    test::HfDirectory drafter;
    drafter.scale = 0.1f;
    drafter.tensors = {};
    if (GetParam() == std::string("eagle")) {
      drafter.config = {{"hidden_size", kDim}, {"num_attention_heads", 6}};
      drafter.tensors = {{"fc.weight", {kDim, 2 * kDim}},
                         {"layers.0.self_attn.q_proj.weight", {kDim, kDim}},
                         {"layers.0.self_attn.k_proj.weight", {kDim / 3, kDim}},
                         {"layers.0.self_attn.v_proj.weight", {kDim / 3, kDim}},
                         {"layers.0.self_attn.o_proj.weight", {kDim, kDim}},
                         {"layers.0.mlp.gate_proj.weight", {64, kDim}},
                         {"layers.0.mlp.up_proj.weight", {64, kDim}},
                         {"layers.0.mlp.down_proj.weight", {kDim, 64}},
                         {"layers.0.post_attention_layernorm.weight", {kDim}}};
    } else {
      drafter.config = {{"medusa_num_heads", 4}, {"medusa_num_layers", 1}};
      for (const std::string head : {"0", "1", "2", "3"}) {
        drafter.tensors[head + ".0.linear.weight"] = {kDim, kDim};
        drafter.tensors[head + ".0.linear.bias"] = {kDim};
      }
    }
    const test::TemporaryDirectory folder;
    drafter.write(folder);
    Process convert({EDGEDRAFT_CLIENT, "convert", demo_model("target"), "--bundle", "--drafter",
                     folder.path(), "-o", bundle_},
                    scratch_ / "convert");
    EXPECT_EQ(convert.wait(), 0) << convert.err();
  }

  json answer(const Server& server, const Options& options) {
    Options all{"-p",    kStory,       "--max-tokens", "60",   "--server", server.address(),
                "--pin", server.pin(), "--bundle",     bundle_};
    all.insert(all.end(), options.begin(), options.end());
    const auto client = start_client(scratch_, "plain", all);
    EXPECT_EQ(client->wait(), 0) << client->err();
    return json::parse(client->out());
  }

  // As answer_through_an_outage, with a server that knows the bundle.
  json answer_through_an_outage_of(Options options) {
    const Options known{"--bundle", bundle_, "--row-budget", "64"};
    Options paced = known;
    paced.insert(paced.end(), kSlowlyPaced.begin(), kSlowlyPaced.end());
    auto server = std::make_unique<Server>(scratch_, paced);
    options.insert(options.end(), {"-p", kStory, "--max-tokens", "60", "--server",
                                   server->address(), "--pin", server->pin(), "--bundle", bundle_,
                                   "--control", "off", "--resync-wait-ms", "20000"});
    const Options writer = GetParam() == std::string("eagle")
                               ? Options{"--pace-ms", "30"}
                               : Options{"--offline-bundle", demo_model("independent")};
    options.insert(options.end(), writer.begin(), writer.end());
    return answer_while_it_is_killed(std::move(server), options, known);
  }

  std::filesystem::path bundle_ = scratch_ / "bundle.gguf";
};

TEST_P(FeatureDrafterOutageTest, TheAnswerIsThePlainOne) {
  const Server server(scratch_, {"--bundle", bundle_, "--row-budget", "64"});
  for (const Options& sampling : {Options{}, Options{"--temperature", "0.9", "--seed", "3"}}) {
    Options plain = sampling;
    plain.push_back("--plain");
    const json expected = answer(server, plain);
    for (const Options& shape : {Options{"--chain", "4"}, Options{"--tree", "8,4,24"}}) {
      SCOPED_TRACE((sampling.empty() ? "greedy " : "sampled ") + shape[0]);
      Options options = sampling;
      options.insert(options.end(), shape.begin(), shape.end());
      const json drafted = answer_through_an_outage_of(options);
      EXPECT_GT(drafted["stats"]["drafted"], 0);
      EXPECT_GT(drafted["stats"]["activation_bytes_sent"], 0);
      EXPECT_GT(drafted["stats"]["offline_tokens"], 0);
      EXPECT_GE(drafted["stats"]["reconnects"], 1);
      for (const auto& mark : provenance(drafted)) EXPECT_EQ(mark, "verified");
      EXPECT_EQ(drafted["tokens"], expected["tokens"]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, FeatureDrafterOutageTest, ::testing::Values("eagle", "medusa"),
                         [](const auto& kind) { return std::string(kind.param); });

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

// Its only token was written, and is not what it should be.
TEST_F(OutageTest, AnUncheckedAnswerIsToldByTheStatus) {
  const auto cycles = scratch_ / "cycles.jsonl";
  const auto client =
      start_client(scratch_, "alone",
                   {"-p", kStory, "--max-tokens", "1", "--server", "127.0.0.1:1", "--pin",
                    "sha256:" + std::string(64, '0'), "--bundle", demo_model("independent"),
                    "--resync-wait-ms", "600000", "--cycles", cycles.string()});
  const auto has_written = [&] {
    std::ifstream in(cycles);
    const std::string lines(std::istreambuf_iterator<char>(in), {});
    return lines.find(R"({"kind":"offline",)") != std::string::npos;
  };
  const Instant end = Clock::now() + std::chrono::seconds(60);
  while (!has_written() && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE(has_written()) << client->err();
  client->signal(SIGINT);
  EXPECT_EQ(client->wait(), 130) << client->err();
}

TEST_F(OutageTest, AnAnswerWithoutTheServerForgetsNothingOfIt) {
  Server server(scratch_);
  const auto answer = [&](const char* name) {
    Process client(joined({EDGEDRAFT_CLIENT, "run", "--json"}, common(server)), scratch_ / name, "",
                   {{"XDG_CONFIG_HOME", scratch_.path().string()},
                    {"XDG_CACHE_HOME", scratch_.path().string()}});
    EXPECT_EQ(client.wait(), 0) << client.err();
    return json::parse(client.out());
  };
  const auto known = [&] {
    std::ifstream in(scratch_ / "edgedraft/servers.json");
    return json::parse(in);
  };
  answer("online");
  const json learned = known();
  EXPECT_FALSE(learned["runs"].empty());
  server.process().signal(SIGKILL);
  server.process().wait();
  EXPECT_GT(answer("offline")["stats"]["offline_tokens"], 0);
  EXPECT_EQ(known(), learned);
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
