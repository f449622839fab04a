#pragma once

#include <CLI/CLI.hpp>

namespace edgedraft::bench {

// Adds `model`: writes a model of random weights.
void add_model_command(CLI::App& program);

}  // namespace edgedraft::bench
