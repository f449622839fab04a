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

// `given` where it is not empty, else the program beside ours or in the same build, else in PATH.
// Errors    io  it is not there; the message names the option
Result<std::filesystem::path> find_program(const std::string& name, const char* option,
                                           const std::filesystem::path& given);

// Whether `program COMMAND --help` names that option.
bool offers(const std::filesystem::path& program, const std::string& command,
            const std::string& option);

}  // namespace edgedraft::netsim
