#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "netsim/profile.h"
#include "netsim/run/experiment.h"
#include "netsim/run/plan.h"

namespace edgedraft::netsim {

// Phases of a cycle; each run line has their sums, in ms.
inline constexpr std::array kPhaseNames{"draft", "pack",   "network", "queue",
                                        "held",  "verify", "unpack"};

// The key of a phase in lines of runs and cycles.
inline std::string phase_key(std::size_t phase) {
  return std::string(kPhaseNames[phase]) + "_ms";
}

// Everything known about one client's answer.
struct RunSource {
  const Experiment& experiment;
  const NetworkProfile& network;
  const DeviceProfile& device;
  std::string driver;
  bool approximate;
  std::uint64_t seed;
  const Trial& trial;
  std::uint32_t client;
  int status;
  std::string answer;             // the client's JSON
  std::string cycles;             // its file of cycles
  double added_ms;                // round trip charged to an arm beside the server
  std::uint32_t late_passes = 0;  // trial total, reported with its first client
  nlohmann::ordered_json events;
  std::string failure{};
};

// A line of runs.jsonl (docs/experiments.md, "Runs"). Every line has the same keys.
nlohmann::ordered_json run_record(const RunSource& source);
// The lines of cycles.jsonl.
std::vector<nlohmann::ordered_json> cycle_records(const RunSource& source);

// True if the answer equals the reference, ignoring surrounding white space.
bool matches(const std::string& answer, const std::string& reference);

}  // namespace edgedraft::netsim
