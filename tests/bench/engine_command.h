#pragma once

#include <CLI/CLI.hpp>

namespace edgedraft::bench {

// Adds `engine`: passes over a layer's weights for different numbers of rows.
void add_engine_command(CLI::App& program);

}  // namespace edgedraft::bench
