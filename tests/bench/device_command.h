#pragma once

#include <CLI/CLI.hpp>

namespace edgedraft::bench {

void add_device_command(CLI::App& program);

}  // namespace edgedraft::bench
