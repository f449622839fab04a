#pragma once

#include <filesystem>
#include <string>

#include "netsim/run/probe.h"
#include "netsim/run/runner.h"
#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft::netsim {

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
