#include "netsim/commands/commands.h"

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
  app.add_option("experiment", o.experiment, "Experiment to run")
      ->type_name("FILE.toml")
      ->required();
  app.add_flag("--quick", o.sources.quick,
               "Run the experiment's short form, to check that it works");
  app.add_option("--out", o.runner.out,
                 "Folder for the results [results/NAME, or results/NAME-quick]")
      ->type_name("DIR");
  app.add_flag("--resume", o.runner.resume,
               "Continue the results in that folder: run what is missing or failed");
  app.add_option("--driver", o.runner.driver,
                 "Link driver (see `edgedraft-netsim link --help`), or loopback for no link")
      ->type_name("DRIVER")
      ->check(CLI::IsMember({"auto", "tc", "tun", "proxy", "loopback"}))
      ->capture_default_str();
  app.add_option("--parallel", o.runner.parallel,
                 "Answers at the same time, each with its own link and server [2 per core if "
                 "devices are paced or times are not measured, else 1]")
      ->type_name("N")
      ->check(in_range(1, 64));
  app.add_flag("--dry-run", o.runner.dry_run,
               "Print what would run, or with --resume what is left, and the expected time");
  app.add_flag("--accept-any-link", o.runner.accept_any_link,
               "Continue if a measured link differs from its profile");
  app.add_flag("--no-report", o.no_report,
               "Skip the report; `edgedraft-netsim report` writes it later");
  app.add_option("--models", o.sources.models, "Folder of models [the experiment's]")
      ->type_name("DIR");
  app.add_option("--lab-program", o.runner.program,
                 "Program with client and server [edgedraft-lab, beside this program or in PATH]")
      ->type_name("FILE");
  app.footer(
      "Examples:\n"
      "  edgedraft-netsim run netsim/experiments/table3.toml --quick\n"
      "  edgedraft-netsim run netsim/experiments/table3.toml --out results/mine --resume\n"
      "Results: manifest.json, runs.csv, runs.jsonl, cycles.jsonl, calibration.jsonl and\n"
      "report.html, a single self-contained file. docs/experiments.md explains them all.\n"
      "Exit status: 0 for success, 1 for failed answers (--resume repeats them) and other errors,\n"
      "2 for wrong options or files, 3 for a link or server that fails or is out of tolerance,\n"
      "5 for a feature that this build or machine lacks, 130 after Ctrl-C.");
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
    std::cerr << "edgedraft-netsim: interrupted; continue with --resume --out " << out.string()
              << '\n';
    return kInterruptedExitCode;
  }
  if (!ran) return ran.error();
  if (o.runner.dry_run) return 0;
  std::cout << "results " << out.string() << std::endl;
  if (ran->failed > 0) {
    std::cerr << "edgedraft-netsim: " << ran->failed << " of " << ran->answers
              << " answers failed; no figure counts them. The first error: "
              << printable(ran->first_failure, Lines::one) << '\n';
    if (ran->left_out > 0) {
      std::cerr << "Skipped: " << ran->left_out
                << " answers of arms that failed three times in a row over one network\n";
    }
    std::cerr << "To repeat them, run again with --resume --out " << out.string() << '\n';
  }
  const int status = ran->failed > 0 ? 1 : 0;
  if (o.no_report) return status;
  const auto reported = report_command({.results = out});
  return reported ? status : reported;
}

void declare_report(CLI::App& app, ReportCommandOptions& o) {
  app.add_option("results", o.results, "Folder of results")->type_name("DIR")->required();
  app.footer(
      "Writes report.html into the folder, also for an unfinished run.\n"
      "Plots need gnuplot (Debian: gnuplot-nox). If a plot cannot be drawn, the report shows the\n"
      "error in its place, and the exit status is 5 if gnuplot is missing, else 1.");
}

Result<int> report_command(const ReportCommandOptions& o) {
  const auto report = write_report(o.results);
  if (!report) return report.error();
  std::cout << "report " << report->file.string() << std::endl;
  if (report->undrawn) return *report->undrawn;
  return 0;
}

void declare_probe(CLI::App& app, ProbeCommandOptions& o) {
  app.add_option("--listen", o.listen, "Run as the server's end and listen here")
      ->type_name("HOST:PORT")
      ->check(is_endpoint(EndpointUse::listen));
  app.add_option("--connect", o.probe.server, "Run as the device's end and connect here")
      ->type_name("HOST:PORT")
      ->check(is_endpoint(EndpointUse::connect));
  constexpr std::uint64_t kRateMax = std::uint64_t{1} << 50;
  app.add_option("--pings", o.probe.pings, "Round trips to measure")
      ->type_name("N")
      ->check(in_range(0u, 1'000'000u))
      ->capture_default_str();
  app.add_option("--up", o.probe.up_bits_per_second, "Expected rate upwards; 0: not measured")
      ->type_name("BIT/S")
      ->check(in_range(std::uint64_t{0}, kRateMax));
  app.add_option("--down", o.probe.down_bits_per_second, "Expected rate downwards; 0: not measured")
      ->type_name("BIT/S")
      ->check(in_range(std::uint64_t{0}, kRateMax));
  app.add_flag("--stream", o.probe.stream,
               "Measure rates with a TCP stream instead of packet trains");
  app.footer(
      "Measures a link from its two ends. `run` starts both before and after an experiment.");
}

Result<int> probe_command(const ProbeCommandOptions& o) {
  if (o.listen.empty() == o.probe.server.empty()) {
    return Error{Errc::usage, "give --listen at one end of the link and --connect at the other"};
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
