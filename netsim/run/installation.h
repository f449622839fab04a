#pragma once

#include <filesystem>
#include <string>

#include "shared/base/error.h"

// Where the programs and files are that an experiment needs, built or installed.
namespace edgedraft::netsim {

// Our own executable.
std::filesystem::path own_program();
// The folder that holds `devices` and `experiments`.
std::filesystem::path share_folder();
// The models that ship.
std::filesystem::path models_folder();

// edgedraft-lab: `given` if it is not empty, else the program beside ours or in the same build,
// else in PATH. Errors    io  it is not there
Result<std::filesystem::path> find_lab(const std::filesystem::path& given);

}  // namespace edgedraft::netsim
