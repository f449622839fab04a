#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "client/commands/commands.h"
#include "server/program/options.h"

namespace edgedraft::lab {

// Options of `edgedraft-lab run`: those of `edgedraft run`, plus experiment settings.
struct LabRunOptions {
  client::RunOptions run;
  std::uint32_t pace_ms = 0;
  std::filesystem::path pace_profile;
  bool beside_target = false;
  std::filesystem::path cycles;
  std::optional<std::uint32_t> offline_after;
  std::filesystem::path oracle;
  std::optional<double> oracle_acceptance;
  std::optional<std::uint64_t> oracle_seed;
};

void declare_lab_run(CLI::App& app, LabRunOptions& options);

// Answers one prompt. Returns the exit status.
Result<int> run_in_lab(const LabRunOptions& options);

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
