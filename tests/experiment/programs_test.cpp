#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/experiment/experiment_programs.h"
#include "tests/support/expect.h"
#include "tests/support/skip.h"

// Files and processes left by a run, killed or not.
namespace edgedraft::testing {
namespace {

TEST_F(ExperimentProgramsTest, WritesConsistentRunsCyclesAndManifest) {
  ASSERT_EQ(run(write(experiment()), {"--no-report"}), 0) << error_;
  EXPECT_TRUE(contains(error_, "Expected time"));
  const auto runs = lines("runs.jsonl");
  ASSERT_EQ(runs.size(), 4u);
  expect_lossless();
  for (const json& run : runs) {
    EXPECT_GT(run["tokens_per_second"], 0);
    EXPECT_EQ(run["paced"], false);
  }
  std::map<std::string, int> tokens;
  for (const json& cycle : lines("cycles.jsonl")) {
    if (cycle.contains("tokens")) tokens[cycle["trial"]] += cycle["tokens"].get<int>();
  }
  for (const json& run : runs) EXPECT_EQ(tokens[run["trial"]], run["tokens"]);
  const json written = manifest();
  for (const char* key : {"commit", "kernel", "cpu", "models", "networks", "experiment_sha256",
                          "command_line", "seeds", "finished"}) {
    EXPECT_FALSE(written[key].is_null()) << key;
  }
  std::ifstream csv(out() / "runs.csv");
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(csv), {}, '\n'), 5);
  EXPECT_EQ(processes(), 0u);
}

TEST_F(ExperimentProgramsTest, ResumesAfterKillAndLeavesNoProcess) {
  const auto file = write(experiment("repetitions = 6\n"));
  {
    Process process(command(file, {"--no-report"}), scratch_ / "killed");
    wait_for_lines(3, process);
    kill_runner(process);
  }
  const std::size_t before = lines_so_far();
  EXPECT_EQ(run(file), 2);  // the folder holds results
  EXPECT_TRUE(contains(error_, "--resume"));
  // Answers of two builds do not form one experiment.
  const std::filesystem::path rebuilt = scratch_ / "edgedraft-lab";
  std::filesystem::copy_file(EDGEDRAFT_LAB, rebuilt);
  std::ofstream(rebuilt, std::ios::app) << '\n';
  EXPECT_EQ(run(file, {"--resume", "--lab-program", rebuilt}), 2);
  EXPECT_TRUE(contains(error_, "of older files or programs"));
  ASSERT_EQ(run(file, {"--no-report", "--resume"}), 0) << error_;
  const auto runs = lines("runs.jsonl");
  EXPECT_EQ(runs.size(), 24u);
  EXPECT_LT(before, 24u);
  std::set<std::string> trials;
  for (const json& run : runs) trials.insert(run["trial"].get<std::string>());
  EXPECT_EQ(trials.size(), 24u);
}

TEST_F(ExperimentProgramsTest, ResumeRefusesChangedSettings) {
  const auto trace = scratch_ / "cell.trace";
  std::ofstream(trace) << "1\n2\n";
  std::ofstream(scratch_ / "cell.toml") << "both = { trace = \"cell.trace\" }\n";
  const auto file = write(experiment("", "\"cell.toml\""));
  ASSERT_EQ(run(file, {"--no-report"}), 0) << error_;
  const auto refused = [&](std::vector<std::string> words) {
    Process process(std::move(words), scratch_ / "refused");
    EXPECT_EQ(process.wait(240s), 2);
    EXPECT_TRUE(contains(process.err(), "results of another experiment"));
  };
  refused(command(file, {"--no-report", "--resume", "--parallel", "2"}));
  auto other_runner = command(file, {"--no-report", "--resume", "--lab-program", EDGEDRAFT_LAB});
  other_runner[0] = scratch_ / "edgedraft-netsim";
  std::filesystem::copy_file(EDGEDRAFT_NETSIM, other_runner[0]);
  std::ofstream(other_runner[0], std::ios::app) << '\n';
  refused(other_runner);
  std::ofstream(trace) << "1\n5\n";
  refused(command(file, {"--no-report", "--resume"}));
  std::ofstream(trace) << "1\n2\n";
  EXPECT_EQ(run(file, {"--no-report", "--resume"}), 0) << error_;
}

TEST_F(ExperimentProgramsTest, ResultsNameDriverChosenByAuto) {
  driver_ = "auto";
  const auto file = write(experiment());
  ASSERT_EQ(run(file, {"--no-report", "--accept-any-link"}), 0) << error_;
  driver_ = manifest()["driver"];
  EXPECT_TRUE(driver_ == "tun" || driver_ == "proxy") << driver_;
  EXPECT_EQ(run(file, {"--no-report", "--resume"}), 0) << error_;
  driver_ = driver_ == "tun" ? "proxy" : "tun";
  EXPECT_EQ(run(file, {"--no-report", "--resume"}), 2);
}

TEST_F(ExperimentProgramsTest, ResumeAddsMissingFinalLinkMeasurement) {
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

TEST_F(ExperimentProgramsTest, CtrlCStopsLinkMeasurement) {
  driver_ = "proxy";
  std::ofstream(scratch_ / "moon.toml") << "both = { rate_mbit = 10, path_ms = 500 }\n";
  std::string text = experiment("", "\"moon.toml\"");
  text.replace(text.find("pings = 5"), 9, "pings = 100");
  Process process(command(write(text), {"--no-report"}), scratch_ / "run");
  wait_until([&] { return std::filesystem::exists(out() / "work/probe.out"); }, process);
  ASSERT_TRUE(process.running()) << process.err();
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(20s), 130);
  EXPECT_TRUE(contains(process.err(), "--resume"));
  EXPECT_EQ(processes(), 0u);
}

TEST_F(ExperimentProgramsTest, LanesShareAnswersAndKeepPromptsTogether) {
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

TEST_F(ExperimentProgramsTest, KilledRunOverEmulatedLinksLeavesNoProcessOrInterface) {
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
  wait_until([&] { return lines_so_far() >= 2; }, process);
  if (!process.running() && process.wait() == 5) EDGEDRAFT_SKIP_WITHOUT("tun", process.err());
  ASSERT_TRUE(process.running()) << process.err();
  EXPECT_GT(processes(), 2u);
  kill_runner(process);
  EXPECT_EQ(interfaces(), before);
}

TEST_F(ExperimentProgramsTest, KilledServerEndsRunAndIsReported) {
  Process process(command(write(experiment("repetitions = 50\n")), {"--no-report"}),
                  scratch_ / "run");
  wait_for_lines(1, process);
  EXPECT_EQ(kill_programs(lab("server")), 1);
  EXPECT_EQ(process.wait(120s), 3);
  EXPECT_TRUE(contains(process.err(), "the server exited"));
  EXPECT_EQ(processes(), 0u);
}

TEST_F(ExperimentProgramsTest, FailedServerStartEndsRunAndIsReported) {
  EXPECT_EQ(run(write(experiment()), {"--lab-program", "/bin/false"}), 3);
  EXPECT_TRUE(
      contains(error_, "the server did not start: it exited with status 1; it printed no error"));
}

TEST_F(ExperimentProgramsTest, KilledLinkEndsRunAndIsReported) {
  driver_ = "proxy";
  Process process(command(write(experiment("repetitions = 50\n")), {"--no-report"}),
                  scratch_ / "run");
  wait_for_lines(1, process);
  // The link's process is a copy of its parent, and so is a client's until it runs its own program.
  std::vector<int> copies;
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  do {
    copies = processes_of(EDGEDRAFT_NETSIM);
    std::erase(copies, process.id());
  } while (copies.size() > 1 && std::chrono::steady_clock::now() < deadline);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(kill(copies.front(), SIGKILL), 0);
  EXPECT_NE(process.wait(120s), 0);
  EXPECT_TRUE(contains(process.err(), "link"));
  EXPECT_EQ(processes(), 0u);
}

TEST_F(ExperimentProgramsTest, KilledClientIsReportedAndRetriedOnResume) {
  const auto file = write(experiment("repetitions = 8\n"));
  Process process(command(file, {"--no-report"}), scratch_ / "run");
  wait_for_lines(1, process);
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (kill_programs(lab("run")) == 0 && std::chrono::steady_clock::now() < deadline) {
  }
  ASSERT_EQ(process.wait(120s), 1) << process.err();
  EXPECT_TRUE(contains(process.err(), "1 of 32 answers failed"));
  const auto failures = [&] {
    const auto runs = lines("runs.jsonl");
    EXPECT_EQ(runs.size(), 32u);
    return std::ranges::count_if(runs, [](const json& run) { return !run["failure"].is_null(); });
  };
  EXPECT_EQ(failures(), 1);
  ASSERT_EQ(run(file, {"--no-report", "--resume"}), 0) << error_;
  EXPECT_EQ(failures(), 0);
  EXPECT_EQ(processes(), 0u);
}

TEST_F(ExperimentProgramsTest, OutageOfPlainStreamResumesAfterKillAndIsPlotted) {
  driver_ = "auto";
  std::ofstream(scratch_ / "tunnel.toml") << "both = { rate_mbit = 50, path_ms = 5 }\n"
                                             "[[outage]]\nafter_tokens = 6\nfor_s = 3\n";
  // At this pace the runner sees six tokens before the answer is complete.
  std::string text =
      experiment("deadline_ms = 1000\ndevices = [\"paper-llama3-8b\"]\n", "\"tunnel.toml\"");
  text.replace(text.find("place = \"server\"\n"), 17, "");
  const auto file = write(text);
  {
    Process process(command(file, {"--accept-any-link"}), scratch_ / "killed");
    wait_for_lines(1, process);
    kill_runner(process);
  }
  const int status = run(file, {"--resume", "--accept-any-link"});
  ASSERT_TRUE(status == 0 || status == 5) << error_;
  std::set<std::string> trials;
  int stalled = 0;
  for (const json& run : lines("runs.jsonl")) {
    EXPECT_TRUE(run["failure"].is_null()) << run["failure"];
    EXPECT_EQ(run["link_events"].size(), 1u);
    trials.insert(run["trial"].get<std::string>());
    if (run["arm"] != "stream") continue;
    stalled += run["stalls_over_1s"].get<int>();
    EXPECT_EQ(run["offline_tokens"], 0);
    EXPECT_GT(run["seconds"].get<double>(), 2.5) << "answer time includes the stall";
  }
  EXPECT_EQ(trials.size(), 4u);
  EXPECT_EQ(stalled, 2);
  EXPECT_FALSE(manifest()["finished"].is_null());
  if (status == 5) EDGEDRAFT_SKIP_WITHOUT("gnuplot", error_);
  const std::string page = test::file_text(out() / "report.html");
  EXPECT_TRUE(contains(page, "Shaded: the link is down"));
}

TEST_F(ExperimentProgramsTest, OmitsArmAfterThreeFailures) {
  const auto file = write(experiment("repetitions = 3\n") + "options = [\"--no-such-option\"]\n");
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--no-report"}, {"--no-report", "--resume"}}) {
    ASSERT_EQ(run(file, options), 1) << error_;
    EXPECT_TRUE(contains(error_, "3 of 12 answers failed"));
    EXPECT_TRUE(contains(error_, "Skipped: 3 answers"));
    std::map<std::string, int> answers;
    for (const json& run : lines("runs.jsonl")) ++answers[run["arm"]];
    EXPECT_EQ(answers, (std::map<std::string, int>{{"split", 3}, {"stream", 6}}));
    EXPECT_FALSE(manifest()["finished"].is_null());
    EXPECT_EQ(manifest()["left_out"], 3);
  }
}

TEST_F(ExperimentProgramsTest, DeadlineAppliesToItsArmOnly) {
  const std::string more =
      "deadline_ms = 777\n[[arm]]\nname = \"impatient\"\nkind = \"plain\"\n"
      "deadline_ms = 888\n[[arm]]\nname = \"other\"\nkind = \"split\"\n"
      "bundle = \"moa-tli0\"\n";
  ASSERT_EQ(run(write(experiment("deadline_ms = 999\n") + more),
                {"--no-report", "--lab-program", noting_lab()}),
            0)
      << error_;
  const std::string text = test::file_text(scratch_ / "calls");
  for (const char* deadline : {"777", "888", "999", "1800000"}) {
    EXPECT_TRUE(contains(text, std::string("--deadline-ms ") + deadline + ' ')) << deadline;
  }
}

TEST_F(ExperimentProgramsTest, ResultsRecordCongestionControl) {
  const auto recorded = [&] {
    EXPECT_TRUE(manifest()["tcp_slow_start_after_idle"].is_boolean());
    return manifest()["networks"][0]["congestion_control"].get<std::string>();
  };
  ASSERT_EQ(run(write(experiment()), {"--no-report"}), 0) << error_;
  std::string host;
  std::ifstream("/proc/sys/net/ipv4/tcp_congestion_control") >> host;
  EXPECT_EQ(recorded(), host) << "loopback uses the host's setting";
  std::filesystem::remove_all(out());
  driver_ = "tun";
  const int status = run(write(experiment()), {"--no-report", "--accept-any-link"});
  if (status == 5) EDGEDRAFT_SKIP_WITHOUT("tun", error_);
  ASSERT_EQ(status, 0) << error_;
  EXPECT_EQ(recorded(), "cubic");
  EXPECT_EQ(run(write(experiment("congestion_control = \"vegaz\"\n"))), 2);
  EXPECT_TRUE(contains(error_, "this kernel has no 'vegaz'"));
}

TEST_F(ExperimentProgramsTest, ProxyResultsAreMarkedApproximate) {
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

TEST_F(ExperimentProgramsTest, LeavesUserFoldersUntouched) {
  std::map<std::string, std::string> folders;
  for (const char* variable : {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"}) {
    folders[variable] = scratch_ / variable;
    std::filesystem::create_directories(folders[variable]);
  }
  const std::string arm =
      "[[arm]]\nname = \"user\"\nkind = \"split\"\nbundle = \"moa-tli0\"\nhold = \"auto\"\n";
  Process process(command(write(experiment() + arm), {"--no-report"}), scratch_ / "run", "",
                  folders);
  ASSERT_EQ(process.wait(240s), 0) << process.err();
  for (const auto& [variable, folder] : folders) {
    EXPECT_TRUE(std::filesystem::is_empty(folder)) << variable;
  }
}

TEST_F(ExperimentProgramsTest, RefusesErrorsBeforeRunning) {
  EXPECT_EQ(run(write(experiment() + "hold = \"sometimes\"\n")), 2);
  EXPECT_EQ(run(write(experiment() + "[[arm]]\nname = \"a\"\nkind = \"plain\"\nhold = \"none\"\n")),
            2);
  EXPECT_TRUE(contains(error_, "split arm"));
  EXPECT_FALSE(std::filesystem::exists(out()));
  EXPECT_EQ(run(write("networks = 3\n")), 2);
  EXPECT_TRUE(contains(error_, "networks"));
  EXPECT_EQ(run(write(experiment() + "colour = 1\n")), 2);
  EXPECT_TRUE(contains(error_, "arm.colour: unknown key"));
  EXPECT_EQ(run(scratch_ / "nothing.toml"), 1);
  EXPECT_TRUE(contains(error_, "no such experiment"));
}

TEST_F(ExperimentProgramsTest, DryRunOnResumeReportsMissingAnswers) {
  const auto file = write(experiment());
  ASSERT_EQ(run(file, {"--no-report"}), 0) << error_;
  ASSERT_EQ(run(file, {"--resume", "--dry-run"}), 0) << error_;
  EXPECT_TRUE(contains(error_, "4 answers"));
  EXPECT_TRUE(contains(error_, "4 already answered"));
  EXPECT_TRUE(contains(error_, "about 0 s"));
  std::filesystem::remove_all(out());
  EXPECT_EQ(run(file, {"--resume", "--dry-run"}), 2);
  EXPECT_TRUE(contains(error_, "no results to resume"));
  EXPECT_FALSE(std::filesystem::exists(out()));
}

TEST_F(ExperimentProgramsTest, RefusesNetworksWithSameName) {
  std::ofstream(scratch_ / "slow.toml") << "name = \"cell\"\nboth = { rate_mbit = 1 }\n";
  std::ofstream(scratch_ / "fast.toml") << "name = \"cell\"\nboth = { rate_mbit = 9 }\n";
  EXPECT_EQ(run(write(experiment("", "\"slow.toml\", \"fast.toml\""))), 2);
  EXPECT_TRUE(contains(error_, "two profiles have the name 'cell'"));
  EXPECT_FALSE(std::filesystem::exists(out()));
}

}  // namespace
}  // namespace edgedraft::testing
