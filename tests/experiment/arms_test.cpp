#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "tests/experiment/experiment_programs.h"
#include "tests/support/expect.h"

// The kinds of arms, and the conditions that make them comparable.
namespace edgedraft::testing {
namespace {

TEST_F(ExperimentProgramsTest, MarksPacedAndSyntheticResults) {
  std::ofstream(scratch_ / "slow.toml") << "name = \"slow\"\n[target]\npass_ms = [[1, 20]]\n"
                                           "[draft.step_ms]\ndefault = 3\n";
  const std::string text =
      "devices = [\"slow\"]\n" + experiment() + "chain = 3\nacceptance = 0.7\n";
  ASSERT_EQ(run(write(text), {"--no-report"}), 0) << error_;
  for (const json& run : lines("runs.jsonl")) {
    EXPECT_EQ(run["paced"], true);
    EXPECT_EQ(run["synthetic_acceptance"], run["arm"] == "split" ? json(0.7) : json(nullptr));
  }
  int drafts = 0;
  for (const json& cycle : lines("cycles.jsonl")) {
    if (cycle["kind"] == "answer" &&
        cycle["trial"].get<std::string>().find("split") != std::string::npos) {
      EXPECT_EQ(cycle["synthetic_acceptance"], 0.7);
      EXPECT_EQ(cycle["pace_profile"], "slow");
    }
    if (cycle["kind"] != "draft") continue;
    ++drafts;
    EXPECT_GE(cycle["server"]["verify_ms"], 20.0);
  }
  EXPECT_GT(drafts, 0);
  EXPECT_EQ(manifest()["paced"], true);
  EXPECT_EQ(manifest()["synthetic"], true);
}

// A pace that no machine reaches.
TEST_F(ExperimentProgramsTest, ReportsPassesAndDraftsSlowerThanTheirPace) {
  std::ofstream(scratch_ / "hasty.toml") << "[target]\npass_ms = [[1, 0.000001]]\n"
                                            "[draft.step_ms]\ndefault = 0.000001\n";
  const std::string text = "devices = [\"hasty\"]\n" + experiment();
  ASSERT_EQ(run(write(text), {"--no-report"}), 0) << error_;
  for (const json& run : lines("runs.jsonl")) {
    EXPECT_GT(run["late_passes"], 0);
    EXPECT_EQ(run["late_drafts"] > 0, run["arm"] == "split");
  }
}

// Arms are compared over drafts that err at the same positions. Prompts and repetitions must
// differ, or resampling would leave out that chance.
TEST_F(ExperimentProgramsTest, SyntheticErrorsMatchAcrossArmsAndDifferPerAnswer) {
  const std::string text = experiment("repetitions = 2\n") +
                           "acceptance = 0.7\n"
                           "[[arm]]\nname = \"chain\"\nkind = \"split\"\nbundle = "
                           "\"moa-tli0\"\nchain = 3\nacceptance = 0.7\n";
  ASSERT_EQ(run(write(text), {"--no-report", "--lab-program", noting_lab()}), 0) << error_;
  std::map<std::string, int> arms_of;  // by seed
  std::ifstream calls(scratch_ / "calls");
  for (std::string line; std::getline(calls, line);) {
    const std::string option = "--oracle-seed ";
    const auto found = line.find(option);
    if (found == std::string::npos) continue;
    const auto first = found + option.size();
    ++arms_of[line.substr(first, line.find(' ', first) - first)];
  }
  EXPECT_EQ(arms_of.size(), 4u) << "two prompts, twice";
  for (const auto& [seed, arms] : arms_of) EXPECT_EQ(arms, 2) << seed;
}

// A later arm must not find the prompt in the prefix cache.
TEST_F(ExperimentProgramsTest, ComputesEveryPromptInFull) {
  std::ofstream(scratch_ / "steep.toml")
      << "name = \"steep\"\n[target]\npass_ms = [[1, 1], [101, 101]]\n"
         "[draft.step_ms]\ndefault = 1\n";
  std::string text = "devices = [\"steep\"]\n" + experiment() + "chain = 2\n";
  text.replace(text.find("\"tool\""), 6, "\"sql\"");
  text.replace(text.find("max_tokens = 24"), 15, "max_tokens = 4");
  ASSERT_EQ(run(write(text), {"--no-report", "--parallel", "1"}), 0) << error_;
  int prompts = 0;
  for (const json& cycle : lines("cycles.jsonl")) {
    if (cycle["kind"] != "prompt") continue;
    ++prompts;
    const int rows = cycle["rows"];
    EXPECT_GT(rows, 32) << "more than a cached page";
    EXPECT_GE(cycle["server"]["verify_ms"].get<double>(), rows - 0.01) << cycle["trial"];
  }
  EXPECT_EQ(prompts, 4);
}

// Combined throughput counts from the last client's request.
TEST_F(ExperimentProgramsTest, RecordsRequestTimePerClient) {
  ASSERT_EQ(run(write(experiment("clients = [3]\n")), {"--no-report"}), 0) << error_;
  const auto runs = lines("runs.jsonl");
  ASSERT_EQ(runs.size(), 2u * 2 * 3);
  std::map<std::string, std::set<double>> asked;
  for (const json& run : runs) {
    ASSERT_TRUE(run["asked_at_ms"].is_number()) << run["failure"];
    EXPECT_GE(run["asked_at_ms"], 0);
    asked[run["trial"]].insert(run["asked_at_ms"].get<double>());
  }
  for (const auto& [trial, times] : asked) EXPECT_EQ(times.size(), 3u) << trial;
}

// At a larger model's pace the link carries activations of its size, and results record it.
TEST_F(ExperimentProgramsTest, PadsPacedPayloadsByDefault) {
  std::ofstream(scratch_ / "slow.toml") << "name = \"slow\"\n[target]\npass_ms = [[1, 5]]\n"
                                           "[draft.step_ms]\ndefault = 1\n"
                                           "[activation_bytes]\n\"moa-tli0\" = 2048\n";
  std::map<std::string, std::string> padded_answers;
  for (const bool padded : {true, false}) {
    std::filesystem::remove_all(out());
    const std::string text = "devices = [\"slow\"]\n" +
                             std::string(padded ? "" : "padded_payloads = false\n") + experiment();
    ASSERT_EQ(run(write(text), {"--no-report"}), 0) << error_;
    for (const json& run : lines("runs.jsonl")) {
      ASSERT_TRUE(run["failure"].is_null()) << run["failure"];
      const bool carries = padded && run["arm"] == "split";
      EXPECT_EQ(run["padded_payloads"], carries);
      const double rows =
          run["activation_bytes_sent"].get<double>() + run["pad_bytes_down"].get<double>();
      if (carries) {
        // One row per token, except for tokens without drafts after them.
        EXPECT_GE(rows, 2048.0 * run["tokens"].get<double>() * 0.5);
        EXPECT_GE(run["bytes_down"].get<double>(), rows);
      } else {
        EXPECT_EQ(run["pad_bytes_down"], 0);
      }
      const std::string key = run["arm"].get<std::string>() + run["prompt"].get<std::string>();
      if (padded) padded_answers[key] = run["answer_sha256"];
      EXPECT_EQ(padded_answers[key], run["answer_sha256"]);
    }
    EXPECT_EQ(manifest()["padded_payloads"], padded);
  }
}

// A server that drafts by itself runs beside the others', and its clients only listen.
TEST_F(ExperimentProgramsTest, ServerSpeculationArmIsLossless) {
  const std::string more =
      "[[arm]]\nname = \"cloud\"\nkind = \"server-speculation\"\nbundle = \"moa-tli0\"\n"
      "[[arm]]\nname = \"free\"\nkind = \"split\"\nbundle = \"moa-tli0\"\nhold = \"auto\"\n";
  ASSERT_EQ(run(write(experiment() + more), {"--no-report"}), 0) << error_;
  expect_lossless();
  std::map<std::string, double> calls;
  for (const json& run : lines("runs.jsonl")) {
    calls[run["arm"]] += run["target_calls"].get<double>();
  }
  EXPECT_LT(calls["cloud"], calls["stream"]);
  EXPECT_TRUE(calls.contains("free"));
  // Streaming and drafting arms.
  std::map<std::string, std::pair<int, int>>
      streamed;  // by arm: verdicts without hints, and all of its runs
  for (const json& cycle : lines("cycles.jsonl")) {
    if (cycle["kind"] != "draft") continue;
    const auto trial = cycle["trial"].get<std::string>();
    for (const char* arm : {"cloud", "stream", "split"}) {
      if (trial.find(arm) == std::string::npos) continue;
      streamed[arm].first += cycle["streamed"].get<bool>() ? 1 : 0;
      ++streamed[arm].second;
    }
  }
  EXPECT_EQ(streamed["cloud"].first, streamed["cloud"].second);
  EXPECT_EQ(streamed["stream"].first, streamed["stream"].second);
  EXPECT_EQ(streamed["split"].first, 0);
  EXPECT_GT(streamed["split"].second, 0);
  EXPECT_EQ(run(write(experiment() + "[[arm]]\nname = \"c\"\nkind = \"server-speculation\"\n")), 2);
  EXPECT_TRUE(contains(error_, "give either bundle or server_drafter"));
}

// Arms that do not wait, alone and with a server that fills their gaps. Answers stay equal, and the
// model has predicted the times of its profile.
TEST_F(ExperimentProgramsTest, HoldArmsAreLosslessAndPredicted) {
  std::string more =
      "[[arm]]\nname = \"cloud\"\nkind = \"server-speculation\"\nserver_drafter = \"ngram\"\n";
  for (const auto& [name, options] :
       {std::pair("none", "hold = \"none\"\n"), std::pair("economy", "hold = \"economy\"\n"),
        std::pair("auto", "hold = \"auto\"\n"),
        std::pair("filled", "hold = \"none\"\nserver_drafter = \"ngram\"\n")}) {
    more += "[[arm]]\nname = \"" + std::string(name) +
            "\"\nkind = \"split\"\nbundle = \"moa-tli0\"\nacceptance = 0.8\n" + options;
  }
  ASSERT_EQ(run(write(experiment("devices = [\"paper-llama3-8b\"]\n") + more)), 0) << error_;
  expect_lossless();
  std::set<std::string> foreseen;
  for (const json& run : lines("runs.jsonl")) {
    const std::string arm = run["arm"];
    static const std::map<std::string, json> kinds{
        {"none", "overlap"}, {"filled", "overlap"}, {"economy", "economy"}, {"split", nullptr}};
    if (kinds.contains(arm)) {
      EXPECT_EQ(run["overlap"], kinds.at(arm)) << arm;
    }
    if (run["predicted_tokens_per_second"].is_number()) foreseen.insert(arm);
  }
  EXPECT_EQ(foreseen, (std::set<std::string>{"economy", "none"})) << "holds that were forecast";
  EXPECT_TRUE(contains(test::file_text(out() / "report.html"), "id=\"prediction\""));
}

// Without a measured link no delay could be added, although the report would claim it.
TEST_F(ExperimentProgramsTest, ArmBesideServerNeedsMeasurableLink) {
  std::ofstream(scratch_ / "lossy.toml") << "both = { rate_mbit = 1, loss = 0.3 }\n";
  EXPECT_EQ(run(write(experiment("", "\"lossy.toml\""))), 2);
  EXPECT_TRUE(contains(error_, "arm 'stream'"));
  EXPECT_TRUE(contains(error_, "lossy loses too many packets"));
  EXPECT_FALSE(std::filesystem::exists(out()));
}

}  // namespace
}  // namespace edgedraft::testing
