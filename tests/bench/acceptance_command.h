#pragma once

#include <CLI/CLI.hpp>

namespace edgedraft::bench {

// Adds `acceptance`: acceptance length a task, and whether every answer is the plain one.
void add_acceptance_command(CLI::App& program);

}  // namespace edgedraft::bench
