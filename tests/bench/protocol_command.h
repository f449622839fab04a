#pragma once

#include <CLI/CLI.hpp>

namespace edgedraft::bench {

// Adds `protocol`: bytes of a cycle, measured on a TLS connection over loopback, against the
// formula.
void add_protocol_command(CLI::App& program);

}  // namespace edgedraft::bench
