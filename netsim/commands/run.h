#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft::netsim {

struct RunCommandOptions {
  std::filesystem::path experiment;
  std::filesystem::path out;
  bool quick = false;
  bool resume = false;
  bool dry_run = false;
  bool accept_any_link = false;
  bool no_report = false;
  std::string driver = "auto";
  std::uint32_t parallel = 0;
  std::filesystem::path models;
  std::filesystem::path lab;
  std::vector<std::string> command_line;  // as the program was called, for the manifest
};

void declare_run(CLI::App& app, RunCommandOptions& options);
Result<int> run_command(const RunCommandOptions& options);

struct ReportCommandOptions {
  std::filesystem::path results;
};

void declare_report(CLI::App& app, ReportCommandOptions& options);
Result<int> report_command(const ReportCommandOptions& options);

struct ProbeCommandOptions {
  std::string listen;
  std::string server;
  std::uint32_t pings = 60;
  std::uint64_t up = 0;
  std::uint64_t down = 0;
  bool stream = false;
};

void declare_probe(CLI::App& app, ProbeCommandOptions& options);
Result<int> probe_command(const ProbeCommandOptions& options);

}  // namespace edgedraft::netsim
