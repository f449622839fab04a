#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>

#include "netsim/commands/link.h"
#include "netsim/commands/run.h"
#include "shared/program/options.h"

namespace edgedraft::netsim {
namespace {

struct Commands {
  LinkCommandOptions link;
  RunCommandOptions run;
  ReportCommandOptions report;
  ProbeCommandOptions probe;
};

int fail(const Error& error) {
  std::cerr << "edgedraft-netsim: " << error.message << '\n';
  return exit_code_of(error.code);
}

int main_with(int argc, char** argv) {
  CLI::App app{"Puts programs on the two ends of an emulated link and measures them",
               "edgedraft-netsim"};
  app.set_version_flag("--version", "edgedraft-netsim " EDGEDRAFT_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.footer("edgedraft-netsim COMMAND --help tells more about each.");

  Commands commands;
  std::function<Result<int>()> command;
  const auto declare = [&](const char* name, const char* what, auto& options, auto add, auto run) {
    CLI::App* sub = app.add_subcommand(name, what);
    add(*sub, options);
    sub->fallthrough();
    sub->callback(
        [&command, &options, run] { command = [&options, run] { return run(options); }; });
  };
  declare("link", "Build one link and run programs at its ends", commands.link, declare_link,
          run_link);

  declare("run", "Run an experiment and report on it", commands.run, declare_run, run_command);
  declare("report", "Make the report of an experiment's results", commands.report, declare_report,
          report_command);
  declare("probe", "Measure a link from its two ends", commands.probe, declare_probe,
          probe_command);
  commands.run.command_line.assign(argv, argv + argc);

  OptionLayers layers(app, "edgedraft-netsim.toml");
  if (!layers.parse(argc, argv)) return layers.exit_code();
  try {
    const auto status = command();
    return status ? *status : fail(status.error());
  } catch (const Failure& failure) {
    return fail(failure.error());
  } catch (const std::exception& failure) {
    return fail({Errc::io, failure.what()});
  }
}

}  // namespace
}  // namespace edgedraft::netsim

int main(int argc, char** argv) {
  return edgedraft::netsim::main_with(argc, argv);
}
