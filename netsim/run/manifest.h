#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "netsim/profile.h"
#include "netsim/run/experiment.h"
#include "netsim/run/testbed.h"

namespace edgedraft::netsim {

// SHA-256 of a file, in hexadecimal; empty where it cannot be read.
std::string file_hash(const std::filesystem::path& file);

// What tells one experiment from another: its file, the profiles' texts, the models, the prompts
// and what right answers to them are, both programs, the driver asked for, and whether it is the
// quick form.
std::string experiment_hash(const Experiment& experiment,
                            const std::vector<NetworkProfile>& networks, const Programs& programs,
                            const std::string& driver);

// manifest.json: everything that a reader needs to judge or repeat the results.
nlohmann::ordered_json make_manifest(const Experiment& experiment,
                                     const std::vector<NetworkProfile>& networks,
                                     const Programs& programs, const std::string& driver,
                                     const std::vector<std::string>& command_line,
                                     double expected_seconds);

}  // namespace edgedraft::netsim
