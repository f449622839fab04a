#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/e2e/process.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::testing {

using nlohmann::json;
using namespace std::chrono_literals;

// Runs `edgedraft-netsim run` over loopback.
class ExperimentProgramsTest : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) {
    const auto file = scratch_ / "experiment.toml";
    std::ofstream(file, std::ios::trunc) << text;
    return file;
  }
  static std::string experiment(const std::string& more = "",
                                const std::string& networks = "\"lan\"") {
    return "name = \"small\"\nnetworks = [" + networks + "]\nmodels = \"" +
           std::string(EDGEDRAFT_MODELS) +
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
  // A wrapper of the lab that records its arguments in scratch_ / "calls".
  std::filesystem::path noting_lab() const {
    auto file = scratch_ / "noting-lab";
    std::ofstream(file) << "#!/bin/sh\necho \"$*\" >> " << (scratch_ / "calls") << "\nexec "
                        << EDGEDRAFT_LAB << " \"$@\"\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }
  std::filesystem::path out() const { return scratch_ / "results"; }
  std::vector<json> lines(const std::string& name) const {
    std::vector<json> read;
    std::ifstream in(out() / name);
    for (std::string line; std::getline(in, line);) read.push_back(json::parse(line));
    return read;
  }
  json manifest() const { return json::parse(std::ifstream(out() / "manifest.json")); }
  // The answers all succeeded, and each prompt's are equal, whatever the arm.
  void expect_lossless() const {
    std::map<std::string, std::string> answers;
    for (const json& run : lines("runs.jsonl")) {
      EXPECT_TRUE(run["failure"].is_null()) << run["failure"];
      const auto known = answers.try_emplace(run["prompt"], run["answer_sha256"]).first;
      EXPECT_EQ(known->second, run["answer_sha256"]) << run["arm"];
    }
  }
  // Counts whole lines only, as another program writes the file.
  std::size_t lines_so_far() const {
    std::ifstream in(out() / "runs.jsonl");
    return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(in), {}, '\n'));
  }
  static std::string lab(const std::string& command) {
    return std::string(EDGEDRAFT_LAB) + '\0' + command;
  }
  // Processes of that program with this test's folder on their command line.
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
  // Waits until the runner has come that far or has ended, for at most a minute.
  template <typename Done>
  static void wait_until(const Done& done, Process& runner) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!done() && runner.running() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(10ms);
    }
  }
  void wait_for_lines(std::size_t count, Process& runner) const {
    wait_until([&] { return lines_so_far() >= count; }, runner);
    ASSERT_TRUE(runner.running()) << runner.err();
  }
  // Processes that it started end with it.
  void kill_runner(Process& runner) const {
    runner.signal(SIGKILL);
    runner.wait();
    for (int i = 0; i < 3000 && processes() > 0; ++i) std::this_thread::sleep_for(10ms);
    EXPECT_EQ(processes(), 0u);
  }

  test::TemporaryDirectory scratch_;
  std::string driver_ = "loopback";
  std::string error_;
};

}  // namespace edgedraft::testing
