#pragma once

#include <cstdint>
#include <string>

#include "netsim/pace_profile.h"
#include "netsim/profile.h"
#include "shared/forecast/run_model.h"

namespace edgedraft::netsim {

// Input of a prediction: an answer over a network at the pace of named hardware, with a given
// acceptance of the device's drafter.
struct PredictedRun {
  const NetworkProfile& network;
  const PaceProfile& pace;
  std::string drafter{};  // its name in the pace profile
  RunKind kind = RunKind::stream;
  RunModel::Shape shape{};      // overlap uses only its breadth
  double acceptance = 0.0;      // acceptance of the drafter's likeliest token
  std::uint32_t row_bytes = 0;  // per position, as sent
  std::uint32_t prompt_rows = 64;
  std::uint32_t tokens = 96;
  bool setup = true;  // include connection setup
};

// Time to set up a connection over the network.
double setup_seconds(const NetworkProfile& network);

// Requires  the pace profile paces the target and, unless it streams, the drafter
RunForecast predict(const PredictedRun& run, std::uint32_t answers, std::uint64_t seed);

}  // namespace edgedraft::netsim
