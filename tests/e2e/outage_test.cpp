#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "shared/base/clock.h"
#include "tests/e2e/process.h"
#include "tests/e2e/programs.h"
#include "tests/e2e/random_drafter.h"
#include "tests/e2e/server_metrics.h"
#include "tests/support/demo_prompts.h"

namespace edgedraft::testing {
namespace {

using nlohmann::json;

// Slow enough that the kill falls into an answer: a whole answer takes some four seconds.
const Options kSlowlyPaced{"--metrics", "127.0.0.1:0", "--pace-ms", "250"};
// Slow enough that the server is back before the drafter has written the rest.
const Options kDrafterPace{"--pace-ms", "30"};

class OutageTest : public ::testing::Test {
 protected:
  Options common(const Server& server, const std::string& bundle = demo_model("moa-tli0")) {
    return joined({"-p", kStory, "--max-tokens", "80", "--bundle", bundle}, with_server(server));
  }

  json plain_answer(const Options& sampling = {}) {
    return answer_from(Server(scratch_), scratch_, demo_model("moa-tli0"),
                       joined({"-p", kStory, "--max-tokens", "80", "--plain"}, sampling));
  }

  // An answer during which the server is killed; it is back, at full speed, before the drafter
  // ends.
  json answer_through_an_outage(const Options& resync) {
    auto server = std::make_unique<Server>(scratch_, kSlowlyPaced);
    const Options options = joined(joined(common(*server), kDrafterPace), resync);
    const json answer = answers_while_it_is_killed(std::move(server), {options}, {})[0];
    EXPECT_GT(answer["stats"]["offline_tokens"], 0);
    return answer;
  }

  // Answers of clients with these options, asked at the same time. The server is killed once each
  // client has a verdict on a draft, and comes back with `server_options` once each writes alone.
  std::vector<json> answers_while_it_is_killed(std::unique_ptr<Server> server,
                                               const std::vector<Options>& clients,
                                               const Options& server_options) {
    std::vector<std::unique_ptr<Process>> asking;
    const auto cycles = [&](std::size_t i) {
      return scratch_ / ("cycles" + std::to_string(i) + ".jsonl");
    };
    const auto wait_for_all = [&](const std::string& kind) {
      for (std::size_t i = 0; i < asking.size(); ++i) {
        EXPECT_TRUE(wait_for_cycle(cycles(i), kind)) << kind << ": " << asking[i]->err();
      }
    };
    for (const Options& options : clients) {
      const std::size_t i = asking.size();
      asking.push_back(start_client(scratch_, "client" + std::to_string(i),
                                    joined(options, {"--cycles", cycles(i)})));
    }
    wait_for_all("draft");
    server->process().signal(SIGKILL);
    server->process().wait();
    wait_for_all("offline");
    const std::string address = server->address();
    server = std::make_unique<Server>(scratch_, server_options, address);
    std::vector<json> answers;
    for (const auto& client : asking) answers.push_back(output_of(*client));
    return answers;
  }

  // Waits until a log of cycles has one of this kind; false after a timeout.
  static bool wait_for_cycle(const std::filesystem::path& cycles, const std::string& kind) {
    const auto has_one = [&] {
      const std::string lines = test::file_text(cycles);
      return lines.find("{\"kind\":\"" + kind + "\",") != std::string::npos;
    };
    const Instant end = Clock::now() + std::chrono::seconds(60);
    while (!has_one()) {
      if (Clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  static std::vector<std::string> provenance(const json& answer) {
    return answer["provenance"].get<std::vector<std::string>>();
  }

  test::TemporaryDirectory scratch_;
};

TEST_F(OutageTest, AnswerContinuesWhenServerIsKilled) {
  Server server(scratch_, kSlowlyPaced);
  const auto client = start_client(scratch_, "client", common(server));
  wait_for_tokens(server.process(), kIntoTheAnswer);
  server.process().signal(SIGKILL);
  const json answer = output_of(*client);
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

TEST_F(OutageTest, CheckCorrectsOfflineTextToPlainAnswer) {
  const json answer = answer_through_an_outage({"--resync", "check", "--resync-wait-ms", "20000"});
  EXPECT_GE(answer["stats"]["reconnects"], 1);
  for (const auto& mark : provenance(answer)) EXPECT_EQ(mark, "verified");
  EXPECT_EQ(answer["tokens"], plain_answer()["tokens"]);
}

enum class Weights : std::uint8_t { trained, random, none };

struct Drafter {
  Weights weights;
  const char* name;  // name of the shipped bundle or the kind
};

// Every drafter, in chains and trees, greedy and sampled: one client each, all at the same time.
class DrafterOutageTest : public OutageTest, public ::testing::WithParamInterface<Drafter> {
 protected:
  DrafterOutageTest() {
    const Drafter& drafter = GetParam();
    if (drafter.weights == Weights::random) {
      bundle_ = random_drafter(scratch_, drafter.name);
      server_options_.insert(server_options_.end(), {"--bundle", bundle_});
    } else if (drafter.weights == Weights::trained) {
      bundle_ = demo_model(drafter.name);
    }
  }

  Options drafting(const std::vector<json>& expected) {
    const std::string name = GetParam().name;
    // Lookup drafters only copy and MEDUSA's heads only guess later tokens, so another model
    // writes.
    const bool writes = GetParam().weights != Weights::none && name != "medusa";
    Options options =
        writes ? kDrafterPace : Options{"--offline-bundle", demo_model("independent")};
    if (GetParam().weights == Weights::none) options = joined(options, {"--drafter", name});
    if (name == "retrieval") {
      std::string text;
      for (const json& answer : expected) text += answer["text"].get<std::string>() + '\n';
      options = joined(options, {"--index", index_of(scratch_, "answers", text)});
    }
    return options;
  }

  static void expect_accepted(const json& stats) {
    EXPECT_GT(stats["drafted"], 0);
    switch (GetParam().weights) {
      case Weights::trained:
        EXPECT_GT(stats["tau"], 1.5);  // drafts from before the outage would not reach this
        break;
      case Weights::none:
        EXPECT_GT(stats["accepted"], 0);
        break;
      case Weights::random:  // nearly all drafts are wrong, offline text too
        break;
    }
  }

  // A drafter without weights needs only its tokenizer.
  std::string bundle_ = demo_model("moa-tli0");
  Options server_options_;
};

TEST_P(DrafterOutageTest, AnswersMatchPlainOnes) {
  std::vector<Options> manners;
  std::vector<json> expected;  // by manner
  for (const Options& sampling : {Options{}, Options{"--temperature", "0.8", "--seed", "3"}}) {
    const json plain = plain_answer(sampling);
    for (const Options& shape : {Options{"--tree", "4"}, Options{"--tree", "8,4,24"}}) {
      manners.push_back(joined(shape, sampling));
      expected.push_back(plain);
    }
  }

  auto server = std::make_unique<Server>(scratch_, joined(server_options_, kSlowlyPaced));
  const Options options = joined(joined(common(*server, bundle_), drafting(expected)),
                                 {"--hold", "lockstep", "--resync-wait-ms", "20000"});
  std::vector<Options> clients;
  for (const Options& manner : manners) clients.push_back(joined(options, manner));
  const auto answers = answers_while_it_is_killed(std::move(server), clients, server_options_);

  for (std::size_t i = 0; i < answers.size(); ++i) {
    SCOPED_TRACE(::testing::PrintToString(manners[i]));
    const json& stats = answers[i]["stats"];
    EXPECT_EQ(answers[i]["tokens"], expected[i]["tokens"]);
    for (const auto& mark : provenance(answers[i])) EXPECT_EQ(mark, "verified");
    EXPECT_GT(stats["offline_tokens"], 0);
    EXPECT_GE(stats["reconnects"], 1);
    const bool reads_activations = !answers[i]["config"]["tap"].get<std::string>().empty();
    EXPECT_EQ(stats["activation_bytes_sent"] > 0, reads_activations);
    expect_accepted(stats);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, DrafterOutageTest,
    ::testing::Values(Drafter{Weights::trained, "moa-tli0"}, Drafter{Weights::trained, "moa-tli1"},
                      Drafter{Weights::trained, "eagle"}, Drafter{Weights::trained, "eagle-hass"},
                      Drafter{Weights::trained, "independent"},
                      Drafter{Weights::trained, "independent-2"}, Drafter{Weights::random, "eagle"},
                      Drafter{Weights::random, "medusa"}, Drafter{Weights::none, "pld"},
                      Drafter{Weights::none, "anpd"}, Drafter{Weights::none, "ngram"},
                      Drafter{Weights::none, "retrieval"}),
    [](const auto& drafter) {
      std::string name = drafter.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return (drafter.param.weights == Weights::random ? "random_" : "") + name;
    });

TEST_F(OutageTest, KeepRetainsOfflineText) {
  const json answer = answer_through_an_outage({"--resync", "keep"});
  EXPECT_EQ(answer["stats"]["rewritten_tokens"], 0);
  const auto marks = provenance(answer);
  EXPECT_EQ(std::count(marks.begin(), marks.end(), "offline"), answer["stats"]["offline_tokens"]);
}

TEST_F(OutageTest, DrafterAnswersAloneWithoutServer) {
  const auto client = start_client(scratch_, "alone",
                                   joined(kNoServer, {"-p", kStory, "--max-tokens", "20",
                                                      "--bundle", demo_model("independent")}));
  const json answer = output_of(*client);
  EXPECT_FALSE(answer["tokens"].empty());
  for (const auto& mark : provenance(answer)) EXPECT_EQ(mark, "offline");
}

TEST_F(OutageTest, TargetDependentDrafterRefusesWithoutServer) {
  const Options options = joined(kNoServer, {"-p", kStory, "--bundle", demo_model("moa-tli0")});
  const auto refused = start_client(scratch_, "alone", options);
  EXPECT_EQ(refused->wait(), 3);
  EXPECT_NE(refused->err().find("--offline-bundle"), std::string::npos) << refused->err();
  const auto answered =
      start_client(scratch_, "beside", joined(options, {"--offline-bundle", demo_model("target")}));
  EXPECT_EQ(answered->wait(), 0) << answered->err();
}

TEST_F(OutageTest, EndsAsBySigpipeWhenReaderLeaves) {
  const Server server(scratch_, kSlowlyPaced);
  Process client(joined({"bash", "-c", R"("$@" | head -c 5; echo " ${PIPESTATUS[0]}")", "bash",
                         EDGEDRAFT_CLIENT, "run"},
                        common(server)),
                 scratch_ / "client");
  EXPECT_EQ(client.wait(), 0) << client.err();
  EXPECT_TRUE(client.out().ends_with(" 141\n")) << client.out();
}

// The only token was printed but never verified.
TEST_F(OutageTest, ExitStatusShowsUncheckedAnswer) {
  const auto cycles = scratch_ / "cycles.jsonl";
  const auto client = start_client(
      scratch_, "alone",
      joined(kNoServer, {"-p", kStory, "--max-tokens", "1", "--bundle", demo_model("independent"),
                         "--resync-wait-ms", "600000", "--cycles", cycles.string()}));
  ASSERT_TRUE(wait_for_cycle(cycles, "offline")) << client->err();
  client->signal(SIGINT);
  EXPECT_EQ(client->wait(), 130) << client->err();
}

TEST_F(OutageTest, OfflineAnswerKeepsKnowledgeOfServer) {
  Server server(scratch_);
  const auto answer = [&](const char* name) {
    Process client(
        joined({EDGEDRAFT_CLIENT, "run", "--json", "--offline-bundle", demo_model("independent")},
               common(server)),
        scratch_ / name, "",
        {{"XDG_CONFIG_HOME", scratch_.path().string()},
         {"XDG_CACHE_HOME", scratch_.path().string()}});
    return output_of(client);
  };
  const auto known = [&] {
    return json::parse(test::file_text(scratch_ / "edgedraft/servers.json"));
  };
  answer("online");
  const json learned = known();
  EXPECT_FALSE(learned["runs"].empty());
  server.process().signal(SIGKILL);
  server.process().wait();
  EXPECT_GT(answer("offline")["stats"]["offline_tokens"], 0);
  EXPECT_EQ(known(), learned);
}

TEST_F(OutageTest, PlainDecodingFailsWithoutServer) {
  const auto client = start_client(
      scratch_, "alone",
      joined(kNoServer, {"-p", kStory, "--plain", "--bundle", demo_model("independent")}));
  EXPECT_EQ(client->wait(), 3);
  EXPECT_NE(client->err().find("127.0.0.1:1"), std::string::npos) << client->err();
}

}  // namespace
}  // namespace edgedraft::testing
