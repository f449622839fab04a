#pragma once

#include <string>
#include <vector>

#include "shared/base/error.h"

namespace edgedraft::netsim {

// Runs a program to its end and returns its standard output. In the network namespace that is open
// as `network`, where that is given.
//
// Errors   io            it cannot be run, or ends with another status than 0: with the command
// line
//                        and what it wrote to standard error
//          unsupported   there is no such program
Result<std::string> run_command(const std::vector<std::string>& argv, int network = -1);

// As one would type it in a shell.
std::string shell_line(const std::vector<std::string>& argv);

}  // namespace edgedraft::netsim
