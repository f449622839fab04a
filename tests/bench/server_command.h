#pragma once

#include <CLI/CLI.hpp>

namespace edgedraft::bench {

// Adds `server`: what one server gives to many devices.
void add_server_command(CLI::App& program);

}  // namespace edgedraft::bench
