#pragma once

#include <filesystem>
#include <string>

#include "shared/base/error.h"

// Locates an experiment's programs and files, built or installed.
namespace edgedraft::netsim {

// Our own executable.
std::filesystem::path own_program();
// The folder that holds `devices` and `experiments`.
std::filesystem::path share_folder();
// The shipped models.
std::filesystem::path models_folder();

// Path of edgedraft-lab: `given` if not empty, else next to our program or in the same build, else
// in PATH.
// Errors    io  it is missing
Result<std::filesystem::path> find_lab(const std::filesystem::path& given);

}  // namespace edgedraft::netsim
