#include "netsim/commands/run.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "netsim/report/report.h"
#include "netsim/run/experiment.h"
#include "netsim/run/installation.h"
#include "netsim/run/probe.h"
#include "netsim/run/runner.h"
#include "shared/base/printable.h"
#include "shared/program/interrupt.h"
#include "shared/program/validators.h"

namespace edgedraft::netsim {

void declare_run(CLI::App& app, RunCommandOptions& o) {
  app.add_option("experiment", o.experiment, "The experiment")->type_name("FILE.toml")->required();
  app.add_flag("--quick", o.sources.quick,
               "Run the experiment's short form, to see whether it works");
  app.add_option("--out", o.runner.out,
                 "Folder for the results [results/NAME, or results/NAME-quick]")
      ->type_name("DIR");
  app.add_flag("--resume", o.runner.resume,
               "Go on with what is in that folder, and run what it lacks or what failed");
  app.add_option("--driver", o.runner.driver,
                 "What makes the link: auto, tc, tun, proxy; or loopback for no link at all")
      ->type_name("DRIVER")
      ->check(CLI::IsMember({"auto", "tc", "tun", "proxy", "loopback"}))
      ->capture_default_str();
  app.add_option("--parallel", o.runner.parallel,
                 "Answers at the same time, each over a link and with a server of its own "
                 "[2 a core where devices are paced or time is not measured, else 1]")
      ->type_name("N")
      ->check(in_range(1, 64));
  app.add_flag("--dry-run", o.runner.dry_run,
               "Only say what would be run, or with --resume what is left, and how long it would "
               "take");
  app.add_flag("--accept-any-link", o.runner.accept_any_link,
               "Go on where the measured link is not what its profile says");
  app.add_flag("--no-report", o.no_report, "Leave the report to `edgedraft-netsim report`");
  app.add_option("--models", o.sources.models, "Folder of models, instead of the experiment's")
      ->type_name("DIR");
  app.add_option("--lab-program", o.runner.program,
                 "Client and server [edgedraft-lab, beside this program or in PATH]")
      ->type_name("FILE");
  app.footer(
      "Examples:\n"
      "  edgedraft-netsim run netsim/experiments/table3.toml --quick\n"
      "  edgedraft-netsim run netsim/experiments/table3.toml --out results/mine --resume\n"
      "Results: manifest.json, runs.csv, runs.jsonl, cycles.jsonl, calibration.jsonl and\n"
      "report.html, one file that opens without a network. docs/experiments.md explains them all.\n"
      "Exit status: 0, 2 for a mistake in options or files, 3 for a link or server that is not as\n"
      "it should be, 5 for what this build or machine lacks, 130 after Ctrl-C, 1 for answers that\n"
      "failed (--resume makes them again) and for the rest.");
}

Result<int> run_command(RunCommandOptions o) {
  const auto experiment = read_experiment(o.experiment, o.sources);
  if (!experiment) return experiment.error();
  const auto program = find_lab(o.runner.program);
  if (!program) return program.error();
  o.runner.program = *program;
  std::filesystem::path& out = o.runner.out;
  if (out.empty()) {
    out = std::filesystem::path("results") / (experiment->name + (o.sources.quick ? "-quick" : ""));
  }
  const auto ran = run_experiment(*experiment, o.runner);
  if (!ran && ran.error().code == Errc::cancelled) {
    std::cerr << "edgedraft-netsim: interrupted; go on with --resume --out " << out.string()
              << '\n';
    return kInterruptedExitCode;
  }
  if (!ran) return ran.error();
  if (o.runner.dry_run) return 0;
  std::cout << "results " << out.string() << std::endl;
  if (ran->failed > 0) {
    std::cerr << "edgedraft-netsim: " << ran->failed << " of " << ran->answers
              << " answers failed and are in no figure. The first: "
              << printable(ran->first_failure, Lines::one) << '\n';
    if (ran->left_out > 0) {
      std::cerr << "Left out: " << ran->left_out
                << " answers of arms that failed three times in a row over one network\n";
    }
    std::cerr << "To make them again, go on with --resume --out " << out.string() << '\n';
  }
  const int status = ran->failed > 0 ? 1 : 0;
  if (o.no_report) return status;
  const auto reported = report_command({.results = out});
  return reported ? status : reported;
}

void declare_report(CLI::App& app, ReportCommandOptions& o) {
  app.add_option("results", o.results, "A folder of results")->type_name("DIR")->required();
  app.footer(
      "Writes report.html into the folder, also of a run that is not finished.\n"
      "Plots are made by gnuplot (Debian: gnuplot-nox); one that cannot be drawn says why in its\n"
      "place, and the exit status is 5 without gnuplot, else 1.");
}

Result<int> report_command(const ReportCommandOptions& o) {
  const auto report = write_report(o.results);
  if (!report) return report.error();
  std::cout << "report " << report->file.string() << std::endl;
  if (report->undrawn) return *report->undrawn;
  return 0;
}

void declare_probe(CLI::App& app, ProbeCommandOptions& o) {
  app.add_option("--listen", o.listen, "Be the server's end")
      ->type_name("HOST:PORT")
      ->check(is_endpoint(EndpointUse::listen));
  app.add_option("--connect", o.probe.server, "Be the device's end")
      ->type_name("HOST:PORT")
      ->check(is_endpoint(EndpointUse::connect));
  constexpr std::uint64_t kRateMax = std::uint64_t{1} << 50;
  app.add_option("--pings", o.probe.pings, "Round trips to measure")
      ->type_name("N")
      ->check(in_range(0u, 1'000'000u))
      ->capture_default_str();
  app.add_option("--up", o.probe.up_bits_per_second,
                 "Rate that the link is said to have, upwards; 0: it is not measured")
      ->type_name("BIT/S")
      ->check(in_range(std::uint64_t{0}, kRateMax));
  app.add_option("--down", o.probe.down_bits_per_second, "The same, downwards")
      ->type_name("BIT/S")
      ->check(in_range(std::uint64_t{0}, kRateMax));
  app.add_flag("--stream", o.probe.stream,
               "Measure rates by a TCP stream instead of packet trains");
  app.footer("The two ends that measure a link; `run` starts them before and after an experiment.");
}

Result<int> probe_command(const ProbeCommandOptions& o) {
  if (o.listen.empty() == o.probe.server.empty()) {
    return Error{Errc::usage, "give --listen at the one end of the link, --connect at the other"};
  }
  if (!o.listen.empty()) {
    if (auto served = serve_probe(o.listen); !served) return served.error();
    return 0;
  }
  const auto result = run_probe(o.probe);
  if (!result) return result.error();
  std::cout << "{\"round_trips_ms\":[";
  for (std::size_t i = 0; i < result->round_trips_ms.size(); ++i) {
    std::cout << (i > 0 ? "," : "") << result->round_trips_ms[i];
  }
  std::cout << "],\"up_bits_per_second\":" << result->up_bits_per_second
            << ",\"down_bits_per_second\":" << result->down_bits_per_second << '}' << std::endl;
  return 0;
}

}  // namespace edgedraft::netsim
