#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "netsim/run/probe.h"
#include "netsim/run/runner.h"
#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft::netsim {

struct LinkCommandOptions {
  std::string profile = "paper-5g";
  std::string driver = "auto";
  std::uint64_t seed = 1;
  std::string at_server;
  std::uint16_t port = 7420;
  bool list = false;
  bool dry_run = false;
  std::uint32_t simulate = 0;
  std::vector<std::string> command;
};

void declare_link(CLI::App& app, LinkCommandOptions& options);

// Builds a link and holds it while the command runs, or until Ctrl-C. Returns the command's exit
// status.
Result<int> run_link(const LinkCommandOptions& options);

struct RunCommandOptions {
  std::filesystem::path experiment;
  ExperimentSources sources;
  RunnerOptions runner;
  bool no_report = false;
};

void declare_run(CLI::App& app, RunCommandOptions& options);
Result<int> run_command(RunCommandOptions options);

struct ReportCommandOptions {
  std::filesystem::path results;
};

void declare_report(CLI::App& app, ReportCommandOptions& options);
Result<int> report_command(const ReportCommandOptions& options);

struct ProbeCommandOptions {
  std::string listen;
  ProbeOptions probe;
};

void declare_probe(CLI::App& app, ProbeCommandOptions& options);
Result<int> probe_command(const ProbeCommandOptions& options);

}  // namespace edgedraft::netsim
