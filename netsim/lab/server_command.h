#pragma once

#include <cstdint>
#include <filesystem>

#include "server/program/options.h"

namespace edgedraft::lab {

// Options of `edgedraft-lab server`: those of `edgedraft-server`, and a larger model's pace.
struct LabServerOptions {
  server::ServerOptions server;
  std::uint32_t pace_ms = 0;
  std::filesystem::path pace_profile;
  bool no_payload_padding = false;
};

void declare_lab_server(CLI::App& app, LabServerOptions& options);

// Runs the server until a signal ends it. Returns the exit status.
Result<int> serve_in_lab(const LabServerOptions& options);

}  // namespace edgedraft::lab
