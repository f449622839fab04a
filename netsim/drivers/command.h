#pragma once

#include <string>
#include <vector>

#include "shared/base/clock.h"
#include "shared/base/error.h"

namespace edgedraft::netsim {

// Runs a program to its end and returns its standard output, in the network namespace open as
// `network`, if given.
//
// Errors   io            it cannot be run, or exits with a status other than 0: with the command
//                        line and its standard error; or it still runs at `deadline`
//          unsupported   the program is missing
Result<std::string> run_command(const std::vector<std::string>& argv, int network = -1,
                                Instant deadline = Instant::max());

// In shell syntax.
std::string shell_line(const std::vector<std::string>& argv);

}  // namespace edgedraft::netsim
