#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "tests/e2e/process.h"
#include "tests/e2e/programs.h"
#include "tests/e2e/random_drafter.h"
#include "tests/support/demo_prompts.h"
#include "tests/support/expect.h"
#include "tests/support/skip.h"

namespace edgedraft::testing {
namespace {

using nlohmann::json;

constexpr const char* kBundles[] = {"moa-tli0",   "moa-tli1",    "eagle",
                                    "eagle-hass", "independent", "independent-2"};

constexpr const char* kStories = "One day the little dog saw a ball. The dog was happy. The end.\n";

class ProgramsTest : public ::testing::Test {
 protected:
  json run(const std::string& bundle, const Options& options) {
    return answer_from(server_, scratch_, demo_model(bundle), options);
  }

  test::TemporaryDirectory scratch_;
  Server server_{scratch_};
};

// Beyond the drafter's context the target continues alone, and the answer is unchanged.
TEST_F(ProgramsTest, DrafterContextMayBeShorterThanConversation) {
  const Options common{"-p", kStory, "--max-tokens", "120"};
  const json plain = run("target", joined(common, {"--plain"}));
  ASSERT_GT(plain["tokens"].size(), 60u);
  for (const char* bundle : {"moa-tli0", "moa-tli1", "independent"}) {
    for (const char* hold : {"auto", "none", "economy", "lockstep"}) {
      const json drafted = run(bundle, joined(common, {"--ctx", "40", "--hold", hold}));
      EXPECT_EQ(drafted["tokens"], plain["tokens"]) << bundle << " " << hold;
      for (const auto& p : drafted["provenance"]) EXPECT_EQ(p, "verified");
    }
  }
}

TEST_F(ProgramsTest, ReportsMemoryAndKeepsItsLimit) {
  const Options common{"-p", kQuestion, "--max-tokens", "30", "--device", "cpu"};
  const json free = run("moa-tli1", common);
  const std::uint64_t held = free["stats"]["memory_held_bytes"];
  EXPECT_GT(held, 4u << 20);
  EXPECT_EQ(free["stats"]["mapped_bytes"], std::filesystem::file_size(demo_model("moa-tli1")));
  EXPECT_GT(free["stats"]["start_to_first_token_s"], 0.0);
  EXPECT_EQ(free["config"]["memory_limit_bytes"], nullptr);

  // Less than the whole context needs.
  const DrafterMemory memory = drafter_memory(scratch_, "moa-tli1");
  const std::uint64_t limit = memory.shared + memory.conversation - memory.conversation / 8;
  const json less = run("moa-tli1", joined(common, {"--memory", std::to_string(limit)}));
  EXPECT_EQ(less["tokens"], free["tokens"]);
  EXPECT_EQ(less["config"]["memory_limit_bytes"], limit);
  EXPECT_LE(less["stats"]["memory_peak_bytes"], limit);

  const auto refused =
      start_client(scratch_, "refused",
                   joined(with_server(server_),
                          {"--bundle", demo_model("moa-tli1"), "-p", kQuestion, "--memory", "1M"}));
  EXPECT_EQ(refused->wait(), 5);
  EXPECT_TRUE(contains(refused->err(), "--memory 1.0 MiB is too little"));
  EXPECT_EQ(json::parse(refused->out())["error"]["code"], "unsupported");
}

TEST_F(ProgramsTest, EveryDrafterGivesPlainAnswerInFewerPasses) {
  for (const char* prompt : {kQuestion, kStory}) {
    const Options common{"-p", prompt, "--max-tokens", "60"};
    const json plain = run("target", joined(common, {"--plain"}));
    EXPECT_EQ(plain["stats"]["tau"], 1.0);
    for (const char* bundle : kBundles) {
      for (const Options& shape : {Options{}, Options{"--tree", "4"}, Options{"--tree", "8,6,1"}}) {
        const json drafted = run(bundle, joined(joined(common, {"--hold", "lockstep"}), shape));
        EXPECT_EQ(drafted["tokens"], plain["tokens"]) << bundle;
        EXPECT_EQ(drafted["text"], plain["text"]);
        EXPECT_LT(drafted["stats"]["target_calls"], plain["stats"]["target_calls"]) << bundle;
        for (const auto& p : drafted["provenance"]) EXPECT_EQ(p, "verified");
      }
    }
  }
}

TEST_F(ProgramsTest, SampledAnswersMatchPlainOnesWithSameSeed) {
  const Options common{"-p", kStory, "--max-tokens", "60"};
  const json likeliest = run("target", joined(common, {"--plain"}));
  for (const char* temperature : {"0.8", "1.0"}) {
    const Options sampled = joined(common, {"--temperature", temperature, "--seed", "7"});
    const json plain = run("moa-tli0", joined(sampled, {"--plain"}));
    EXPECT_NE(plain["tokens"], likeliest["tokens"]);
    for (const char* bundle : kBundles) {
      SCOPED_TRACE(std::string(bundle) + " at " + temperature);
      EXPECT_EQ(run(bundle, sampled)["tokens"], plain["tokens"]);
      for (const Options& shape : {Options{"--tree", "4"}, Options{"--tree", "8,4,24"}}) {
        const json drafted = run(bundle, joined(joined(sampled, {"--hold", "lockstep"}), shape));
        EXPECT_EQ(drafted["tokens"], plain["tokens"]) << shape[0];
        EXPECT_GT(drafted["stats"]["tau"], 1.5) << shape[0];
        EXPECT_LT(drafted["stats"]["target_calls"], plain["stats"]["target_calls"]) << shape[0];
      }
    }
  }
}

// Drafters without weights, alone and beside the bundle's own.
TEST_F(ProgramsTest, WeightlessDraftersDoNotChangeAnswers) {
  const std::string index = index_of(scratch_, "stories", kStories);
  EXPECT_TRUE(contains(test::file_text(scratch_ / "index-stories.err"), "declared public"));
  const Options common{"-p", kStory, "--max-tokens", "60", "--hold", "lockstep"};
  for (const Options& sampling : {Options{}, Options{"--temperature", "0.8", "--seed", "7"}}) {
    const json plain = run("target", joined(joined(common, sampling), {"--plain"}));
    for (const Options& drafters :
         {Options{"--drafter", "pld"}, Options{"--drafter", "anpd"}, Options{"--drafter", "ngram"},
          Options{"--drafter-merge", "ngram"},
          Options{"--drafter", "pld", "--drafter-merge", "anpd"},
          Options{"--drafter", "retrieval", "--index", index},
          Options{"--drafter-merge", "ngram,retrieval", "--index", index}}) {
      const json drafted = run("moa-tli1", joined(joined(common, sampling), drafters));
      EXPECT_EQ(drafted["tokens"], plain["tokens"]) << drafters[1];
      EXPECT_GT(drafted["stats"]["drafted"], 0) << drafters[1];
    }
  }
}

// A drafter that knows some of the tokens works as any other does.
TEST(ReducedVocabularyTest, ConvertedBundleGivesPlainAnswer) {
  const test::TemporaryDirectory scratch;
  const auto corpus = scratch.write(
      "corpus.txt", "47+38: 7+8+0=15, 4+3+1=08. Answer: 85\n{\"name\": \"set_alarm\"}\n");
  Options server_options;
  std::vector<std::string> bundles;
  for (const char* name : {"moa-tli1", "independent"}) {
    bundles.push_back(scratch / (std::string(name) + "-300.gguf"));
    Process convert({EDGEDRAFT_CLIENT, "convert", demo_model(name), "--draft-vocab", "300",
                     "--corpus", corpus, "-o", bundles.back()},
                    scratch / "convert");
    ASSERT_EQ(convert.wait(), 0) << convert.err();
    EXPECT_TRUE(contains(convert.err(), "300 of 4096 tokens cover 100.00 %"));
    server_options.insert(server_options.end(), {"--bundle", bundles.back()});
  }
  const Server server(scratch, server_options);
  for (const Options& sampling : {Options{}, Options{"--temperature", "0.9", "--seed", "3"}}) {
    const Options common = joined({"-p", kQuestion, "--max-tokens", "60"}, sampling);
    const json plain =
        answer_from(server, scratch, demo_model("target"), joined(common, {"--plain"}));
    EXPECT_EQ(plain["config"]["device"], "none");
    for (const std::string& bundle : bundles) {
      const json drafted =
          answer_from(server, scratch, bundle, joined(common, {"--hold", "lockstep"}));
      EXPECT_EQ(drafted["tokens"], plain["tokens"]) << bundle;
      if (sampling.empty()) {
        EXPECT_GT(drafted["stats"]["tau"], 2.0) << bundle;
      }
    }
  }
}

TEST_F(ProgramsTest, PaddingDoesNotChangeAnswers) {
  const Options common{"-p", kStory, "--max-tokens", "60"};
  for (const char* hold : {"none", "lockstep"}) {
    for (const char* bundle : {"moa-tli0", "independent"}) {
      const Options options = joined(common, {"--hold", hold});
      const json bare = run(bundle, options);
      const json padded = run(bundle, joined(options, {"--pad"}));
      EXPECT_EQ(padded["tokens"], bare["tokens"]) << hold;
      EXPECT_EQ(padded["config"]["pad"], true);
      EXPECT_EQ(bare["stats"]["pad_bytes_up"], 0);
      EXPECT_EQ(bare["stats"]["pad_bytes_down"], 0);
      EXPECT_GT(padded["stats"]["pad_bytes_up"], 0);
      // Except under lockstep, activations may fill every block; tokens alone never do.
      const bool has_room = bundle == std::string("independent") || hold == std::string("lockstep");
      EXPECT_GT(padded["stats"]["pad_bytes_down"], has_room ? 0 : -1) << hold << ' ' << bundle;
    }
  }
}

// A truncated log could pass for a complete one.
TEST_F(ProgramsTest, FullDiskForCycleLogFailsRun) {
  const auto client = start_client(
      scratch_, "full",
      joined(with_server(server_), {"--bundle", demo_model("moa-tli0"), "-p", kQuestion,
                                    "--max-tokens", "20", "--cycles", "/dev/full"}));
  EXPECT_EQ(client->wait(), 1) << client->err();
  EXPECT_TRUE(contains(client->err(), "--cycles /dev/full"));
  const std::string out = client->out();
  const auto last = out.rfind('\n', out.size() - 2) + 1;
  EXPECT_EQ(json::parse(out.substr(last))["error"]["code"], "io");
}

TEST_F(ProgramsTest, ReportsDraftingDeviceAndReason) {
  const json asked = run("moa-tli0", {"-p", kQuestion, "--max-tokens", "3", "--device", "cpu"});
  EXPECT_EQ(asked["config"]["device"], "cpu");
  EXPECT_EQ(asked["config"]["device_reason"], "requested");
  EXPECT_FALSE(asked["config"]["device_name"].get<std::string>().empty());
  const auto missing = start_client(
      scratch_, "missing",
      {"--bundle", demo_model("moa-tli0"), "-p", kQuestion, "--device", "vulkan:4000000000"});
  EXPECT_EQ(missing->wait(), 2);
  EXPECT_TRUE(contains(missing->err(), "cpu ("));
}

TEST(DevicesCommandTest, MeasuresCpuAndCachesResult) {
  const test::TemporaryDirectory scratch;
  Process devices(
      {EDGEDRAFT_CLIENT, "devices", "--bundle", demo_model("moa-tli0"), "--threads", "1", "--json"},
      scratch / "devices", "", {{"XDG_CACHE_HOME", scratch / "cache"}});
  const json list = output_of(devices);
  EXPECT_EQ(list["devices"][0]["device"], "cpu");
  EXPECT_GT(list["devices"][0]["step_seconds"], 0.0);
  EXPECT_GT(list["devices"][0]["bytes_per_second"], 0.0);
  EXPECT_TRUE(list["auto"].is_string());
  EXPECT_TRUE(std::filesystem::exists(scratch / "cache/edgedraft/devices.json"));
}

TEST_F(ProgramsTest, CountsBytesAtSocket) {
  const json answer = run("moa-tli0", {"-p", kStory, "--max-tokens", "60", "--hold", "lockstep"});
  const auto& stats = answer["stats"];
  // At least 4 bytes per drafted node go up, and a byte per activation value comes down.
  EXPECT_GT(stats["bytes_up"], 4 * stats["drafted"].get<int>());
  EXPECT_GT(stats["bytes_down"], stats["activation_bytes_sent"]);
  EXPECT_LE(stats["activation_bytes_sent"], stats["activation_bytes_raw"]);
  EXPECT_GT(stats["tau"], 1.0);
}

TEST_F(ProgramsTest, PlainAnswerIsRunWithoutHints) {
  const Options common{"-p", kStory, "--max-tokens", "60", "--plain"};
  const json streamed = run("target", common);
  const json asked = run("target", joined(common, {"--hold", "lockstep"}));
  EXPECT_EQ(streamed["tokens"], asked["tokens"]);
  EXPECT_EQ(streamed["stats"]["target_calls"], asked["stats"]["target_calls"]);
  EXPECT_EQ(streamed["stats"]["streamed_tokens"], streamed["stats"]["tokens"].get<int>() - 1);
  EXPECT_EQ(asked["stats"]["streamed_tokens"], 0);
  // One request instead of complete hints per token.
  EXPECT_LT(streamed["stats"]["bytes_up"], asked["stats"]["bytes_up"].get<int>() / 2);
}

TEST_F(ProgramsTest, HoldDoesNotChangeAnswersAndIsReported) {
  const Options common{"-p", kStory, "--max-tokens", "120", "--temperature", "0.7", "--seed", "2"};
  const json expected = run("target", joined(common, {"--plain"}));
  for (const char* bundle : {"moa-tli0", "moa-tli1", "independent"}) {
    for (const char* hold : {"auto", "none", "economy", "lockstep"}) {
      const json answer = run(bundle, joined(common, {"--hold", hold}));
      EXPECT_EQ(answer["tokens"], expected["tokens"]) << bundle;
      EXPECT_EQ(answer["config"]["hold"], hold);
      const json& stats = answer["stats"];
      EXPECT_EQ(stats["streamed_tokens"] > 0,
                !stats["streamed_because"].get<std::string>().empty());
      EXPECT_EQ(stats["overlap"].is_null(), hold == std::string("lockstep"));
      EXPECT_EQ(stats["overlap_because"].get<std::string>().empty(), hold != std::string("auto"));
    }
  }
}

// A 16-bit KV cache may change the target's answers slightly; drafting does not change them.
TEST(KvTypeTest, DraftedAnswersMatchPlainOnesOfSameServer) {
  const test::TemporaryDirectory scratch;
  for (const char* type : {"f16", "bf16"}) {
    SCOPED_TRACE(type);
    const Server server(scratch, {"--kv-type", type});
    const Server speculating(scratch, {"--kv-type", type, "--speculate", "moa-tli1"});
    for (const Options& sampling : {Options{}, Options{"--temperature", "0.9", "--seed", "3"}}) {
      const Options common = joined({"-p", kStory, "--max-tokens", "80"}, sampling);
      const auto answer = [&](const Server& from, const std::string& bundle, const Options& more) {
        return answer_from(from, scratch, demo_model(bundle), joined(common, more));
      };
      const json plain = answer(server, "target", {"--plain"});
      EXPECT_EQ(answer(speculating, "target", {"--plain"})["tokens"], plain["tokens"]);
      for (const char* bundle : {"moa-tli0", "moa-tli1", "independent"}) {
        const json drafted = answer(server, bundle, {"--hold", "lockstep"});
        EXPECT_EQ(drafted["tokens"], plain["tokens"]) << bundle;
        EXPECT_LT(drafted["stats"]["target_calls"], plain["stats"]["target_calls"]) << bundle;
      }
    }
  }
}

// A GPU whose drafters may have a 16-bit KV cache, as `edgedraft devices` reports it; null without
// one.
json gpu_with_16_bits(const test::TemporaryDirectory& scratch, const std::string& bundle) {
  for (const json& device : devices_for(scratch, bundle)) {
    const bool is_gpu = device["device"].get<std::string>().starts_with("vulkan:");
    if (!is_gpu || !device["unusable"].is_null() || !device["failure"].is_null()) continue;
    for (const json& feature : device["features"]) {
      if (feature == "8- and 16-bit storage (used)") return device;
    }
  }
  return nullptr;
}

// The drafter's KV cache takes half the memory, and the answer stays the target's.
TEST_F(ProgramsTest, SixteenBitKvCacheOnGpuHalvesItsMemory) {
  const json gpu = gpu_with_16_bits(scratch_, "independent");
  if (gpu.is_null()) {
    EDGEDRAFT_SKIP_WITHOUT("vulkan", "install mesa-vulkan-drivers for a software device");
  }
  for (const Options& sampling : {Options{}, Options{"--temperature", "0.9", "--seed", "3"}}) {
    const Options common = joined({"-p", kStory, "--max-tokens", "40"}, sampling);
    const json plain = run("target", joined(common, {"--plain"}));
    for (const char* bundle : {"moa-tli0", "moa-tli1", "independent"}) {
      SCOPED_TRACE(bundle);
      const auto drafted = [&](const std::string& device, const std::string& type) {
        // A limit makes it allocate memory on demand instead of in large blocks.
        const json answer = run(bundle, joined(common, {"--hold", "lockstep", "--device", device,
                                                        "--kv-type", type, "--memory", "1G"}));
        EXPECT_EQ(answer["tokens"], plain["tokens"]) << device << " " << type;
        EXPECT_LT(answer["stats"]["target_calls"], plain["stats"]["target_calls"]);
        EXPECT_EQ(answer["config"]["device"], device);
        return answer["stats"]["memory_held_bytes"].get<std::uint64_t>();
      };
      const std::uint64_t wide = drafted(gpu["device"], "f32");
      const std::uint64_t narrow = drafted(gpu["device"], "f16");
      ASSERT_LT(narrow, wide);
      if (bundle != std::string("independent")) continue;
      // A conversation holds almost nothing else.
      const auto conversation = gpu["conversation_bytes"].get<double>();
      EXPECT_NEAR(static_cast<double>(wide - narrow), conversation / 2, conversation / 40);
    }
  }
}

// The server drafts for a client that only listens.
TEST(SpeculatingServerTest, GivesPlainAnswerInFewerPasses) {
  const test::TemporaryDirectory scratch;
  const auto answer = [&](const Server& server, const Options& sampling) {
    return answer_from(server, scratch, demo_model("target"),
                       joined({"-p", kStory, "--max-tokens", "80", "--plain"}, sampling));
  };
  const Options samplings[] = {{}, {"--temperature", "0.9", "--seed", "3"}};
  std::vector<json> expected;
  {
    const Server plain_server(scratch);
    for (const Options& sampling : samplings) expected.push_back(answer(plain_server, sampling));
  }
  // MEDUSA's heads add what they learned to the target's activations. Untrained heads repeat the
  // guess of one token earlier, which is sometimes right.
  const Options medusa{"--bundle", random_drafter(scratch, "medusa")};
  for (const char* speculating :
       {"moa-tli0", "moa-tli1", "eagle", "random-medusa", "independent", "lookahead", "core"}) {
    SCOPED_TRACE(speculating);
    // Pacing makes rows cheap. Without it, a CPU's rows are worth few drafts of a sampled answer
    // and none of the target's own guesses.
    const Server server(scratch, joined(medusa, {"--speculate", speculating, "--pace-ms", "20"}));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      SCOPED_TRACE(::testing::PrintToString(samplings[i]));
      const json speculated = answer(server, samplings[i]);
      EXPECT_EQ(speculated["tokens"], expected[i]["tokens"]);
      EXPECT_GT(speculated["stats"]["tau"], 1.0);
      EXPECT_LT(speculated["stats"]["target_calls"], expected[i]["stats"]["target_calls"]);
    }
  }
}

TEST(SpeculatingServerTest, CopiesFromPublicTextsOnly) {
  const test::TemporaryDirectory scratch;
  const std::string open = index_of(scratch, "public", kStories);
  const std::string closed = index_of(scratch, "closed", kStories, {});
  const auto refusal = [&](const Options& options) {
    return refusal_of_server(scratch, joined({"--model", demo_model("target")}, options));
  };
  EXPECT_TRUE(contains(refusal({"--speculate", "retrieval"}), "--index FILE"));
  EXPECT_TRUE(contains(refusal({"--speculate", "core", "--index", open}), "--speculate"));
  EXPECT_TRUE(contains(refusal({"--speculate", "retrieval", "--index", closed}), "public"));

  const auto answer = [&](const Server& server) {
    return answer_from(server, scratch, demo_model("target"),
                       {"-p", kStory, "--max-tokens", "60", "--plain"});
  };
  const json expected = answer(Server(scratch));
  for (const char* name : {"retrieval", "core+retrieval"}) {
    const json drafted =
        answer(Server(scratch, {"--speculate", name, "--index", open, "--pace-ms", "20"}));
    EXPECT_EQ(drafted["tokens"], expected["tokens"]) << name;
    EXPECT_GT(drafted["stats"]["drafted"], 0) << name;
  }
}

TEST(SpeculatingServerTest, ListsAvailableDrafters) {
  const test::TemporaryDirectory scratch;
  const Options options{
      "--model", demo_model("target"), "--bundle", demo_model("moa-tli0"), "--speculate", "nobody"};
  EXPECT_TRUE(contains(refusal_of_server(scratch, options), "moa-tli0"));
}

TEST_F(ProgramsTest, ReadsOptionsFromEnvironmentAndFile) {
  const auto file = scratch_.write("options.toml",
                                   "bundle = \"" + demo_model("moa-tli0") + "\"\nmax-tokens = 3\n");
  Process client({EDGEDRAFT_CLIENT, "run", "--json", "--config", file, "-p", kStory},
                 scratch_ / "layers", "",
                 {{"EDGEDRAFT_SERVER", server_.address()},
                  {"EDGEDRAFT_PIN", server_.pin()},
                  {"EDGEDRAFT_MAX_TOKENS", "5"}});
  EXPECT_EQ(output_of(client)["stats"]["tokens"], 5) << "the environment outranks the file";
}

TEST(VariablesTest, EachBelongsToOneProgramAndOneOption) {
  const test::TemporaryDirectory scratch;
  // Marks the processes of a link; an option named --link would set it.
  std::map<std::string, std::string> owners{{"EDGEDRAFT_NETSIM_LINK", "stray processes"}};
  for (const std::string program :
       {EDGEDRAFT_CLIENT, EDGEDRAFT_SERVER, EDGEDRAFT_LAB, EDGEDRAFT_NETSIM, EDGEDRAFT_BENCH}) {
    Process nonsense({program, "NONSENSE"}, scratch / "nonsense");
    ASSERT_EQ(nonsense.wait(), 2);
    std::smatch list;
    const std::string mistake = nonsense.err();
    std::istringstream commands(
        std::regex_search(mistake, list, std::regex("commands are (.*)")) ? list.str(1) : "--help");
    std::size_t found = 0;
    for (std::string command; std::getline(commands >> std::ws, command, ',');) {
      Process shown({program, command, "--help"}, scratch / "help");
      ASSERT_EQ(shown.wait(), 0) << program << ' ' << command << ": " << shown.err();
      // Options that are positional, too, are listed twice.
      std::string help = shown.out();
      help.erase(0, help.find("\nOptions:"));
      const std::regex variable("\\(Env:(\\w+)\\)");
      std::set<std::string> seen;
      for (std::sregex_iterator it(help.begin(), help.end(), variable), end; it != end; ++it) {
        const std::string name = it->str(1);
        EXPECT_TRUE(seen.insert(name).second) << program << ' ' << command << ": " << name;
        EXPECT_EQ(owners.emplace(name, program).first->second, program) << name;
      }
      found += seen.size();
    }
    EXPECT_GT(found, 0u) << program;
  }
}

TEST_F(ProgramsTest, ServerEndsOnSigterm) {
  server_.process().signal(SIGTERM);
  EXPECT_EQ(server_.process().wait(), 0);
}

}  // namespace
}  // namespace edgedraft::testing
