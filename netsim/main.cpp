#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "netsim/commands/commands.h"
#include "shared/program/program.h"

namespace edgedraft::netsim {
namespace {

struct Options {
  LinkCommandOptions link;
  RunCommandOptions run;
  ReportCommandOptions report;
  ProbeCommandOptions probe;
};

// Removes the words after the first `--` from the command line of `link`: CLI11 would parse a
// bracketed one as a list.
std::vector<std::string> take_device_command(int& argc, char** argv) {
  char** const end = argv + argc;
  char** const mark = std::find(argv, end, std::string_view("--"));
  if (mark == end || std::find(argv, mark, std::string_view("link")) == mark) return {};
  argc = static_cast<int>(mark - argv);
  return {mark + 1, end};
}

int main_with(int argc, char** argv) {
  Options o;
  o.run.runner.command_line.assign(argv, argv + argc);
  const std::vector<std::string> device_command = take_device_command(argc, argv);
  Program program({.name = "edgedraft-netsim",
                   .what = "Runs programs at the two ends of an emulated link and measures them",
                   .version = "edgedraft-netsim " EDGEDRAFT_VERSION,
                   .default_file = "edgedraft-netsim.toml"});
  program.command("link", "Build one link and run programs at its ends", o.link, declare_link,
                  [&](LinkCommandOptions link) {
                    link.command.insert(link.command.end(), device_command.begin(),
                                        device_command.end());
                    return run_link(link);
                  });
  program.command("run", "Run an experiment and report on it", o.run, declare_run, run_command);
  program.command("report", "Write the report of an experiment's results", o.report, declare_report,
                  report_command);
  program.command("probe", "Measure a link from its two ends", o.probe, declare_probe,
                  probe_command);
  return program.main(argc, argv);
}

}  // namespace
}  // namespace edgedraft::netsim

int main(int argc, char** argv) {
  return edgedraft::netsim::main_with(argc, argv);
}
