#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "netsim/profile.h"
#include "netsim/run/experiment.h"
#include "netsim/run/testbed.h"

namespace edgedraft::netsim {

// SHA-256 of a file, in hexadecimal; empty if it cannot be read.
std::string file_hash(const std::filesystem::path& file);

// Identifies an experiment by its file, the profiles' texts and traces, the models, and files named
// in arms' options. It also covers the prompts with tasks and references, both programs, the driver
// ("auto" resolved), the requested lanes, and the quick form.
std::string experiment_hash(const Experiment& experiment,
                            const std::vector<NetworkProfile>& networks,
                            const std::filesystem::path& program, const std::string& driver,
                            std::uint32_t parallel);

// "2026-01-31T23:59:00Z"
std::string utc_now();

// TCP settings of an experiment's links.
struct TcpSettings {
  bool slow_start_after_idle = true;
  std::string host_congestion_control{};  // for links without namespaces, which have their own
                                          // setting
};

// manifest.json: all that is needed to judge or repeat the results.
nlohmann::ordered_json make_manifest(const Experiment& experiment,
                                     const std::vector<NetworkProfile>& networks,
                                     const std::filesystem::path& program,
                                     const std::string& driver, const TcpSettings& tcp,
                                     const std::vector<std::string>& command_line,
                                     const std::string& hash, double expected_seconds);

}  // namespace edgedraft::netsim
