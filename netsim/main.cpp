#include "netsim/commands/link.h"
#include "netsim/commands/run.h"
#include "shared/program/program.h"

namespace edgedraft::netsim {
namespace {

struct Options {
  LinkCommandOptions link;
  RunCommandOptions run;
  ReportCommandOptions report;
  ProbeCommandOptions probe;
};

int main_with(int argc, char** argv) {
  Options o;
  o.run.command_line.assign(argv, argv + argc);
  Program program({.name = "edgedraft-netsim",
                   .what = "Puts programs on the two ends of an emulated link and measures them",
                   .version = "edgedraft-netsim " EDGEDRAFT_VERSION,
                   .default_file = "edgedraft-netsim.toml"});
  program.command("link", "Build one link and run programs at its ends", o.link, declare_link,
                  run_link);
  program.command("run", "Run an experiment and report on it", o.run, declare_run, run_command);
  program.command("report", "Make the report of an experiment's results", o.report, declare_report,
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
