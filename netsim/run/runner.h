#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "netsim/run/experiment.h"
#include "netsim/run/testbed.h"

namespace edgedraft::netsim {

struct RunnerOptions {
  std::filesystem::path out;
  bool resume = false;
  bool dry_run = false;          // print the plan and its duration only
  bool accept_any_link = false;  // continue if a calibration is out of tolerance
  std::string driver = "auto";   // "loopback": none
  // Links and servers side by side, each with its own answers; 0: as many as do not disturb
  // measurements.
  std::uint32_t parallel = 0;
  std::filesystem::path program;          // edgedraft-lab
  std::vector<std::string> command_line;  // the command line, for the manifest
};

struct RunTally {
  std::size_t answers = 0;  // in the whole experiment
  std::size_t failed = 0;
  std::size_t left_out = 0;     // answers of arms that failed three times in a row
  std::string first_failure{};  // with its arm
};

// Runs the missing part of an experiment, with results in `out`. SIGINT and SIGTERM end it and keep
// its results. A failed answer does not end it; three in a row skip the rest of that arm's answers
// for that network, device and seed.
//
// Errors    usage, io, unsupported (an arm or driver unavailable here), link_down if a server does
//           not start or is gone, refused for a link out of tolerance, cancelled
Result<RunTally> run_experiment(const Experiment& experiment, const RunnerOptions& options);

}  // namespace edgedraft::netsim
