#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "client/commands/client_options.h"

namespace edgedraft::client {

struct RunOptions {
  OptionValues answer;
  std::optional<std::string> prompt;
  std::filesystem::path file;  // "-": standard input
};

void declare_run(CLI::App& app, RunOptions& options);

// Answers one prompt. Returns the exit status.
Result<int> run_once(const RunOptions& options);

}  // namespace edgedraft::client
