#pragma once

#include <cstdint>
#include <string>

#include "netsim/pace_profile.h"
#include "netsim/profile.h"
#include "shared/forecast/run_model.h"

namespace edgedraft::netsim {

// What is to be predicted: an answer over a network at the pace of named hardware, if the device's
// drafter is right as often as it is said to be.
struct PredictedRun {
  const NetworkProfile& network;
  const PaceProfile& pace;
  std::string drafter{};  // as the pace profile names it
  RunKind kind = RunKind::stream;
  RunModel::Shape shape{};      // of which overlap takes the breadth alone
  double acceptance = 0.0;      // of the drafter's likeliest token
  std::uint32_t row_bytes = 0;  // of a position's activations, as they cross the link
  std::uint32_t prompt_rows = 64;
  std::uint32_t tokens = 96;
  bool setup = true;  // the connection is made first
};

// What making a connection over the network takes.
double setup_seconds(const NetworkProfile& network);

// Requires  the pace profile paces the target and, unless it streams, the drafter
RunForecast predict(const PredictedRun& run, std::uint32_t answers, std::uint64_t seed);

}  // namespace edgedraft::netsim
