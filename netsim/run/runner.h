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
  bool dry_run = false;          // say what would be done and how long it would take
  bool accept_any_link = false;  // go on where a calibration is out of tolerance
  std::string driver = "auto";   // "loopback": none
  // Links and servers side by side, each with its own answers; 0: as many as do not disturb what is
  // measured.
  std::uint32_t parallel = 0;
  std::filesystem::path program;          // edgedraft-lab
  std::vector<std::string> command_line;  // as the program was called, for the manifest
};

struct RunTally {
  std::size_t answers = 0;  // of the whole experiment
  std::size_t failed = 0;
  std::size_t left_out = 0;     // of arms that failed three times in a row
  std::string first_failure{};  // which arm's, and why
};

// Runs what of the experiment has not been run yet, and leaves the results in `out`. Ends at
// SIGINT and SIGTERM, with what it has. A failed answer does not end it; three in a row of one arm
// leave out the rest of that arm's answers over that network, device and seed.
//
// Errors    usage, io, unsupported (an arm or driver that is not to be had here), link_down for a
//           server that does not start or is gone, refused for a link out of tolerance, cancelled
Result<RunTally> run_experiment(const Experiment& experiment, const RunnerOptions& options);

}  // namespace edgedraft::netsim
