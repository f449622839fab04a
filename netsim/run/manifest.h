#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "netsim/profile.h"
#include "netsim/run/experiment.h"
#include "netsim/run/testbed.h"

namespace edgedraft::netsim {

// SHA-256 of a file, in hexadecimal; empty where it cannot be read.
std::string file_hash(const std::filesystem::path& file);

// What tells one experiment from another: its file, the profiles' texts and traces, the models, the
// files that arms' options name, the prompts with their tasks and what right answers to them are,
// both programs, the driver (which has to be the one that "auto" takes), how many lanes were
// asked for, and whether it is the quick form.
std::string experiment_hash(const Experiment& experiment,
                            const std::vector<NetworkProfile>& networks,
                            const std::filesystem::path& program, const std::string& driver,
                            std::uint32_t parallel);

// "2026-01-31T23:59:00Z"
std::string utc_now();

// TCP as an experiment's links have it.
struct TcpSettings {
  bool slow_start_after_idle = true;
  std::string host_congestion_control{};  // if links are not namespaces, which have their own
};

// manifest.json: everything that a reader needs to judge or repeat the results.
nlohmann::ordered_json make_manifest(const Experiment& experiment,
                                     const std::vector<NetworkProfile>& networks,
                                     const std::filesystem::path& program,
                                     const std::string& driver, const TcpSettings& tcp,
                                     const std::vector<std::string>& command_line,
                                     const std::string& hash, double expected_seconds);

}  // namespace edgedraft::netsim
