#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/e2e/process.h"
#include "tests/support/skip.h"

// `edgedraft-netsim run` itself, over loopback: what it leaves behind, killed or not.
namespace edgedraft::testing {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

class ExperimentProgramsTest : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) {
    const auto file = scratch_ / "experiment.toml";
    std::ofstream(file, std::ios::trunc) << text;
    return file;
  }
  static std::string experiment(const std::string& more = "") {
    return "name = \"small\"\nnetworks = [\"lan\"]\nmodels = \"" + std::string(EDGEDRAFT_MODELS) +
           "\"\ntasks = [\"tool\"]\nprompt_count = 2\nmax_tokens = 24\nwarm_up = 0\n"
           "baseline = \"stream\"\n" +
           more +
           "[calibration]\npings = 5\n"
           "[[arm]]\nname = \"stream\"\nkind = \"plain\"\nplace = \"server\"\n"
           "[[arm]]\nname = \"split\"\nkind = \"split\"\nbundle = \"moa-tli0\"\n";
  }
  std::vector<std::string> command(const std::filesystem::path& file,
                                   std::vector<std::string> options = {}) {
    std::vector<std::string> words{EDGEDRAFT_NETSIM, "run",   file,          "--driver",
                                   driver_,          "--out", out().string()};
    words.insert(words.end(), options.begin(), options.end());
    return words;
  }
  int run(const std::filesystem::path& file, std::vector<std::string> options = {}) {
    Process process(command(file, std::move(options)), scratch_ / "run");
    const int status = process.wait(240s);
    error_ = process.err();
    return status;
  }
  std::filesystem::path out() const { return scratch_ / "results"; }
  std::vector<json> lines(const std::string& name) const {
    std::vector<json> read;
    std::ifstream in(out() / name);
    for (std::string line; std::getline(in, line);) read.push_back(json::parse(line));
    return read;
  }
  // While another program writes the file: whole lines only.
  std::size_t lines_so_far() const {
    std::ifstream in(out() / "runs.jsonl");
    return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(in), {}, '\n'));
  }
  // Processes of that program that have our folder on their command line.
  std::vector<int> processes_of(const std::string& program) const {
    std::vector<int> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream in(entry.path() / "cmdline", std::ios::binary);
      const std::string line{std::istreambuf_iterator<char>(in), {}};
      if (line.find(scratch_.path().string()) == std::string::npos) continue;
      if (line.starts_with(program)) found.push_back(std::stoi(entry.path().filename()));
    }
    return found;
  }
  std::size_t processes() const { return processes_of("").size(); }
  int kill_programs(const std::string& program) const {
    int killed = 0;
    for (const int pid : processes_of(program)) killed += kill(pid, SIGKILL) == 0 ? 1 : 0;
    return killed;
  }
  void wait_for_lines(std::size_t count, Process& runner) const {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (lines_so_far() < count && runner.running() &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(10ms);
    }
    ASSERT_TRUE(runner.running()) << runner.err();
  }

  test::TemporaryDirectory scratch_;
  std::string driver_ = "loopback";
  std::string error_;
};

TEST_F(ExperimentProgramsTest, LeavesRunsCyclesAndAManifestThatBelongTogether) {
  ASSERT_EQ(run(write(experiment()), {"--no-report"}), 0) << error_;
  EXPECT_NE(error_.find("Expected time"), std::string::npos);
  const auto runs = lines("runs.jsonl");
  ASSERT_EQ(runs.size(), 4u);
  std::map<std::string, std::string> answers;
  for (const json& run : runs) {
    EXPECT_TRUE(run["failure"].is_null()) << run["failure"];
    EXPECT_GT(run["tokens_per_second"], 0);
    EXPECT_EQ(run["paced"], false);
    // Lossless: both arms say the same.
    const auto known = answers.try_emplace(run["prompt"], run["answer_sha256"]).first;
    EXPECT_EQ(known->second, run["answer_sha256"]);
  }
  std::map<std::string, int> tokens;
  for (const json& cycle : lines("cycles.jsonl")) {
    if (cycle.contains("tokens")) tokens[cycle["trial"]] += cycle["tokens"].get<int>();
  }
  for (const json& run : runs) EXPECT_EQ(tokens[run["trial"]], run["tokens"]);
  const json manifest = json::parse(std::ifstream(out() / "manifest.json"));
  for (const char* key : {"commit", "kernel", "cpu", "models", "networks", "experiment_sha256",
                          "command_line", "seeds", "finished"}) {
    EXPECT_FALSE(manifest[key].is_null()) << key;
  }
  std::ifstream csv(out() / "runs.csv");
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(csv), {}, '\n'), 5);
  EXPECT_EQ(processes(), 0u);
}

TEST_F(ExperimentProgramsTest, GoesOnAfterBeingKilledAndLeavesNoProcess) {
  const auto file = write(experiment("repetitions = 6\n"));
  {
    Process process(command(file, {"--no-report"}), scratch_ / "killed");
    wait_for_lines(3, process);
    process.signal(SIGKILL);
    process.wait();
  }
  for (int i = 0; i < 3000 && processes() > 0; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(processes(), 0u);
  const std::size_t before = lines_so_far();
  EXPECT_EQ(run(file), 2);  // there is something already
  EXPECT_NE(error_.find("--resume"), std::string::npos);
  // Answers of two builds are not one experiment's.
  const std::filesystem::path rebuilt = scratch_ / "edgedraft";
  std::filesystem::copy_file(EDGEDRAFT_CLIENT, rebuilt);
  std::ofstream(rebuilt, std::ios::app) << '\n';
  EXPECT_EQ(run(file, {"--resume", "--client-program", rebuilt}), 2);
  EXPECT_NE(error_.find("programs were changed"), std::string::npos) << error_;
  ASSERT_EQ(run(file, {"--no-report", "--resume"}), 0) << error_;
  const auto runs = lines("runs.jsonl");
  EXPECT_EQ(runs.size(), 24u);
  EXPECT_LT(before, 24u);
  std::set<std::string> trials;
  for (const json& run : runs) trials.insert(run["trial"].get<std::string>());
  EXPECT_EQ(trials.size(), 24u);
}

TEST_F(ExperimentProgramsTest, ResumingRefusesWhatWouldMixTwoSettings) {
  const auto trace = scratch_ / "cell.trace";
  std::ofstream(trace) << "1\n2\n";
  std::ofstream(scratch_ / "cell.toml") << "both = { trace = \"cell.trace\" }\n";
  std::string text = experiment();
  text.replace(text.find("\"lan\""), 5, "\"cell.toml\"");
  const auto file = write(text);
  ASSERT_EQ(run(file, {"--no-report"}), 0) << error_;
  const auto refused = [&](std::vector<std::string> words) {
    Process process(std::move(words), scratch_ / "refused");
    EXPECT_EQ(process.wait(240s), 2);
    EXPECT_NE(process.err().find("holds results of another experiment"), std::string::npos)
        << process.err();
  };
  refused(command(file, {"--no-report", "--resume", "--parallel", "2"}));
  auto other_runner = command(file, {"--no-report", "--resume", "--client-program",
                                     EDGEDRAFT_CLIENT, "--server-program", EDGEDRAFT_SERVER});
  other_runner[0] = scratch_ / "edgedraft-netsim";
  std::filesystem::copy_file(EDGEDRAFT_NETSIM, other_runner[0]);
  std::ofstream(other_runner[0], std::ios::app) << '\n';
  refused(other_runner);
  std::ofstream(trace) << "1\n5\n";
  refused(command(file, {"--no-report", "--resume"}));
  std::ofstream(trace) << "1\n2\n";
  EXPECT_EQ(run(file, {"--no-report", "--resume"}), 0) << error_;
}

TEST_F(ExperimentProgramsTest, ResultsNameTheDriverThatAutoTook) {
  driver_ = "auto";
  const auto file = write(experiment());
  ASSERT_EQ(run(file, {"--no-report", "--accept-any-link"}), 0) << error_;
  driver_ = json::parse(std::ifstream(out() / "manifest.json"))["driver"];
  EXPECT_TRUE(driver_ == "tun" || driver_ == "proxy") << driver_;
  EXPECT_EQ(run(file, {"--no-report", "--resume"}), 0) << error_;
  driver_ = driver_ == "tun" ? "proxy" : "tun";
  EXPECT_EQ(run(file, {"--no-report", "--resume"}), 2);
}

TEST_F(ExperimentProgramsTest, ResumingMeasuresTheLinkThatNobodyMeasuredAfterItsAnswers) {
  const auto file = write(experiment());
  ASSERT_EQ(run(file, {"--no-report"}), 0) << error_;
  const auto measured = lines("calibration.jsonl");
  ASSERT_EQ(measured.size(), 2u);
  std::ofstream(out() / "calibration.jsonl", std::ios::trunc) << measured[0] << '\n';
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(run(file, {"--no-report", "--resume"}), 0) << error_;
    const auto again = lines("calibration.jsonl");
    ASSERT_EQ(again.size(), 2u);
    EXPECT_EQ(again[1]["when"], "after");
    EXPECT_EQ(lines("runs.jsonl").size(), 4u);
  }
}

TEST_F(ExperimentProgramsTest, CtrlCEndsAMeasurementOfALink) {
  driver_ = "proxy";
  std::ofstream(scratch_ / "moon.toml") << "both = { rate_mbit = 10, path_ms = 500 }\n";
  std::string text = experiment();
  text.replace(text.find("\"lan\""), 5, "\"moon.toml\"");
  text.replace(text.find("pings = 5"), 9, "pings = 100");
  Process process(command(write(text), {"--no-report"}), scratch_ / "run");
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!std::filesystem::exists(out() / "work/probe.out") && process.running() &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(10ms);
  }
  ASSERT_TRUE(process.running()) << process.err();
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(20s), 130);
  EXPECT_NE(process.err().find("--resume"), std::string::npos) << process.err();
  EXPECT_EQ(processes(), 0u);
}

TEST_F(ExperimentProgramsTest, LanesShareTheAnswersAndEachPromptStaysInOne) {
  ASSERT_EQ(run(write(experiment("repetitions = 2\n")), {"--no-report", "--parallel", "3"}), 0)
      << error_;
  std::set<std::string> trials;
  std::map<std::string, std::set<int>> lanes_of_block;
  std::set<int> lanes;
  for (const json& run : lines("runs.jsonl")) {
    EXPECT_TRUE(trials.insert(run["trial"].get<std::string>()).second) << run["trial"];
    const std::string block = run["prompt"].get<std::string>() + run["repetition"].dump();
    lanes_of_block[block].insert(run["lane"].get<int>());
    lanes.insert(run["lane"].get<int>());
  }
  EXPECT_EQ(trials.size(), 8u);
  EXPECT_GT(lanes.size(), 1u);
  for (const auto& [block, lanes_of_it] : lanes_of_block)
    EXPECT_EQ(lanes_of_it.size(), 1u) << block;
  std::map<int, int> measured;
  for (const json& line : lines("calibration.jsonl")) ++measured[line["lane"].get<int>()];
  EXPECT_EQ(measured, (std::map<int, int>{{1, 2}, {2, 2}, {3, 2}}));
}

TEST_F(ExperimentProgramsTest, KilledOverEmulatedLinksItLeavesNoProcessAndNoDevice) {
  driver_ = "tun";
  const auto interfaces = [] {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net")) {
      names.insert(entry.path().filename());
    }
    return names;
  };
  const auto before = interfaces();
  Process process(
      command(write(experiment("repetitions = 50\n")), {"--no-report", "--parallel", "2"}),
      scratch_ / "run");
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (lines_so_far() < 2 && process.running() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(10ms);
  }
  if (!process.running() && process.wait() == 5) EDGEDRAFT_SKIP_WITHOUT("tun", process.err());
  ASSERT_TRUE(process.running()) << process.err();
  EXPECT_GT(processes(), 2u);
  process.signal(SIGKILL);
  process.wait();
  for (int i = 0; i < 500 && processes() > 0; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(processes(), 0u);
  EXPECT_EQ(interfaces(), before);
}

TEST_F(ExperimentProgramsTest, AServerThatIsKilledEndsTheRunWithAWord) {
  Process process(command(write(experiment("repetitions = 50\n")), {"--no-report"}),
                  scratch_ / "run");
  wait_for_lines(1, process);
  EXPECT_EQ(kill_programs(EDGEDRAFT_SERVER), 1);
  EXPECT_EQ(process.wait(120s), 3);
  EXPECT_NE(process.err().find("the server ended"), std::string::npos) << process.err();
  EXPECT_EQ(processes(), 0u);
}

TEST_F(ExperimentProgramsTest, AServerThatDoesNotStartEndsTheRunWithAWord) {
  EXPECT_EQ(run(write(experiment()), {"--server-program", "/bin/false"}), 3);
  EXPECT_NE(error_.find("the server did not start"), std::string::npos) << error_;
}

TEST_F(ExperimentProgramsTest, ALinkThatIsKilledEndsTheRunWithAWord) {
  driver_ = "proxy";
  Process process(command(write(experiment("repetitions = 50\n")), {"--no-report"}),
                  scratch_ / "run");
  wait_for_lines(1, process);
  // The link's process is a copy of the program that made it, and so is a client's until it has
  // started its own.
  std::vector<int> copies;
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  do {
    copies = processes_of(EDGEDRAFT_NETSIM);
    std::erase(copies, process.id());
  } while (copies.size() > 1 && std::chrono::steady_clock::now() < deadline);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(kill(copies.front(), SIGKILL), 0);
  EXPECT_NE(process.wait(120s), 0);
  EXPECT_NE(process.err().find("link"), std::string::npos) << process.err();
  EXPECT_EQ(processes(), 0u);
}

TEST_F(ExperimentProgramsTest, AKilledClientIsAFailureThatCountsNowhere) {
  Process process(command(write(experiment("repetitions = 8\n")), {"--no-report"}),
                  scratch_ / "run");
  wait_for_lines(1, process);
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (kill_programs(EDGEDRAFT_CLIENT) == 0 && std::chrono::steady_clock::now() < deadline) {
  }
  ASSERT_EQ(process.wait(120s), 0) << process.err();
  int failures = 0;
  for (const json& run : lines("runs.jsonl")) failures += run["failure"].is_null() ? 0 : 1;
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(processes(), 0u);
}

TEST_F(ExperimentProgramsTest, ResultsOverAProxySayThatItIsApproximate) {
  driver_ = "proxy";
  ASSERT_EQ(run(write(experiment()), {"--no-report", "--accept-any-link"}), 0) << error_;
  const auto runs = lines("runs.jsonl");
  ASSERT_EQ(runs.size(), 4u);
  for (const json& run : runs) {
    EXPECT_EQ(run["driver"], "proxy");
    EXPECT_EQ(run["link_approximate"], true);
    EXPECT_TRUE(run["failure"].is_null()) << run["failure"];
  }
}

TEST_F(ExperimentProgramsTest, PacedAndSyntheticResultsSaySo) {
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
    EXPECT_EQ(cycle["server"]["pace_ms"], 20.0);
    EXPECT_GE(cycle["server"]["verify_ms"], 20.0);
  }
  EXPECT_GT(drafts, 0);
  const json manifest = json::parse(std::ifstream(out() / "manifest.json"));
  EXPECT_EQ(manifest["paced"], true);
  EXPECT_EQ(manifest["synthetic"], true);
}

// At a larger model's pace the link carries activations of its size, and results say so.
TEST_F(ExperimentProgramsTest, PacedPayloadsArePaddedUnlessAnExperimentSaysOtherwise) {
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
          run["activation_bytes_sent"].get<double>() + run["padding_bytes_down"].get<double>();
      if (carries) {
        // A row for every token but those that nothing was drafted behind.
        EXPECT_GE(rows, 2048.0 * run["tokens"].get<double>() * 0.5);
        EXPECT_GE(run["bytes_down"].get<double>(), rows);
      } else {
        EXPECT_EQ(run["padding_bytes_down"], 0);
      }
      const std::string key = run["arm"].get<std::string>() + run["prompt"].get<std::string>();
      if (padded) padded_answers[key] = run["answer_sha256"];
      EXPECT_EQ(padded_answers[key], run["answer_sha256"]);
    }
    const json manifest = json::parse(std::ifstream(out() / "manifest.json"));
    EXPECT_EQ(manifest["padded_payloads"], padded);
  }
}

TEST_F(ExperimentProgramsTest, TheUsersFoldersStayAsTheyAre) {
  std::map<std::string, std::string> folders;
  for (const char* variable : {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"}) {
    folders[variable] = scratch_ / variable;
    std::filesystem::create_directories(folders[variable]);
  }
  const std::string arm =
      "[[arm]]\nname = \"user\"\nkind = \"split\"\nbundle = \"moa-tli0\"\noverlap = \"auto\"\n";
  Process process(command(write(experiment() + arm), {"--no-report"}), scratch_ / "run", "",
                  folders);
  ASSERT_EQ(process.wait(240s), 0) << process.err();
  for (const auto& [variable, folder] : folders) {
    EXPECT_TRUE(std::filesystem::is_empty(folder)) << variable;
  }
}

TEST_F(ExperimentProgramsTest, ARowBudgetBindsEveryDraft) {
  ASSERT_EQ(run(write(experiment("row_budget = 3\n")), {"--no-report"}), 0) << error_;
  int largest = 0;
  for (const json& cycle : lines("cycles.jsonl")) {
    if (cycle["kind"] == "draft") largest = std::max(largest, cycle["rows"].get<int>());
  }
  EXPECT_EQ(largest, 3);
}

// A server that drafts for itself stands beside the others', and clients only listen to it.
TEST_F(ExperimentProgramsTest, AServerThatDraftsForItselfIsAnArm) {
  const std::string more =
      "[[arm]]\nname = \"cloud\"\nkind = \"server-speculation\"\nbundle = \"moa-tli0\"\n"
      "[[arm]]\nname = \"free\"\nkind = \"split\"\nbundle = \"moa-tli0\"\ncontrol = true\n";
  ASSERT_EQ(run(write(experiment() + more), {"--no-report"}), 0) << error_;
  std::map<std::string, std::string> answers;
  std::map<std::string, double> calls;
  for (const json& run : lines("runs.jsonl")) {
    EXPECT_TRUE(run["failure"].is_null()) << run["failure"];
    const auto known = answers.try_emplace(run["prompt"], run["answer_sha256"]).first;
    EXPECT_EQ(known->second, run["answer_sha256"]) << run["arm"];
    calls[run["arm"]] += run["target_calls"].get<double>();
  }
  EXPECT_LT(calls["cloud"], calls["stream"]);
  EXPECT_TRUE(calls.contains("free"));
  // Who streamed and who drafted.
  std::map<std::string, std::pair<int, int>>
      streamed;  // by arm: verdicts of streams, of all drafts
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
  EXPECT_NE(error_.find("which bundle"), std::string::npos) << error_;
}

// Arms that do not wait, alone and with a server that fills their gaps; answers stay the same, and
// a model has foreseen what took its profile's time.
TEST_F(ExperimentProgramsTest, AServerThatNeverWaitsIsAnArm) {
  const std::string split = "kind = \"split\"\nbundle = \"moa-tli0\"\nacceptance = 0.8\n";
  const std::string more = "[[arm]]\nname = \"on\"\n" + split +
                           "overlap = \"on\"\n"
                           "[[arm]]\nname = \"economy\"\n" +
                           split +
                           "overlap = \"economy\"\n"
                           "[[arm]]\nname = \"auto\"\n" +
                           split +
                           "overlap = \"auto\"\n"
                           "[[arm]]\nname = \"filled\"\n" +
                           split +
                           "overlap = \"on\"\nserver_drafter = \"ngram\"\n"
                           "[[arm]]\nname = \"cloud\"\nkind = \"server-speculation\"\n"
                           "server_drafter = \"ngram\"\n";
  ASSERT_EQ(run(write(experiment("devices = [\"paper-llama3-8b\"]\n") + more)), 0) << error_;
  std::map<std::string, std::string> answers;
  std::set<std::string> foreseen;
  for (const json& run : lines("runs.jsonl")) {
    EXPECT_TRUE(run["failure"].is_null()) << run["failure"];
    const auto known = answers.try_emplace(run["prompt"], run["answer_sha256"]).first;
    EXPECT_EQ(known->second, run["answer_sha256"]) << run["arm"];
    const std::string arm = run["arm"];
    static const std::map<std::string, json> kinds{
        {"on", "overlap"}, {"filled", "overlap"}, {"economy", "economy"}, {"split", nullptr}};
    if (kinds.contains(arm)) {
      EXPECT_EQ(run["overlap"], kinds.at(arm)) << arm;
    }
    if (run["predicted_tokens_per_second"].is_number()) foreseen.insert(arm);
  }
  EXPECT_EQ(foreseen, (std::set<std::string>{"economy", "on"})) << "what is known of its drafts";
  std::ifstream report(out() / "report.html");
  const std::string page(std::istreambuf_iterator<char>(report), {});
  EXPECT_NE(page.find("id=\"prediction\""), std::string::npos);
}

TEST_F(ExperimentProgramsTest, WhatThisBuildLacksIsRefusedBeforeAnythingRuns) {
  const std::string more =
      "[[arm]]\nname = \"ahead\"\nkind = \"split\"\nbundle = \"moa-tli0\"\noverlap = \"on\"\n";
  // A client of before there were runs.
  const auto old = scratch_ / "old-client";
  std::ofstream(old) << "#!/bin/sh\necho 'Options: --control'\n";
  std::filesystem::permissions(old, std::filesystem::perms::owner_all);
  EXPECT_EQ(run(write(experiment() + more), {"--client-program", old.string()}), 5);
  EXPECT_NE(error_.find("not available in this build"), std::string::npos) << error_;
  EXPECT_EQ(run(write(experiment() + more + "overlap = \"sometimes\"\n")), 2);
  EXPECT_EQ(
      run(write(experiment() + "[[arm]]\nname = \"a\"\nkind = \"plain\"\noverlap = \"on\"\n")), 2);
  EXPECT_NE(error_.find("split arms"), std::string::npos) << error_;
  EXPECT_FALSE(std::filesystem::exists(out()));
  EXPECT_EQ(run(write("networks = 3\n")), 2);
  EXPECT_NE(error_.find("networks"), std::string::npos) << error_;
  EXPECT_EQ(run(write(experiment() + "colour = 1\n")), 2);
  EXPECT_NE(error_.find("'colour'"), std::string::npos) << error_;
  EXPECT_EQ(run(scratch_ / "nothing.toml"), 1);
  EXPECT_NE(error_.find("no such experiment"), std::string::npos) << error_;
}

TEST_F(ExperimentProgramsTest, TwoNetworksOfOneNameAreRefused) {
  std::ofstream(scratch_ / "slow.toml") << "name = \"cell\"\nboth = { rate_mbit = 1 }\n";
  std::ofstream(scratch_ / "fast.toml") << "name = \"cell\"\nboth = { rate_mbit = 9 }\n";
  std::string text = experiment();
  text.replace(text.find("\"lan\""), 5, "\"slow.toml\", \"fast.toml\"");
  EXPECT_EQ(run(write(text)), 2);
  EXPECT_NE(error_.find("two profiles are called 'cell'"), std::string::npos) << error_;
  EXPECT_FALSE(std::filesystem::exists(out()));
}

}  // namespace
}  // namespace edgedraft::testing
