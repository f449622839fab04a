#pragma once

#include <CLI/CLI.hpp>

namespace edgedraft::bench {

// Adds `agreement`: whether a model repeats the ids that another implementation recorded.
void add_agreement_command(CLI::App& program);

}  // namespace edgedraft::bench
