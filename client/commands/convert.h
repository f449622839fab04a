#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft::client {

struct ConvertCommandOptions {
  std::filesystem::path input;
  std::filesystem::path output;
  std::optional<std::string> type;  // f16 if absent
  bool bundle = false;
  std::filesystem::path drafter;
  std::optional<std::int64_t> draft_vocab;
  std::filesystem::path corpus;
  bool force = false;
};

void declare_convert(CLI::App& app, ConvertCommandOptions& options);

// Converts a model, or makes a bundle. Returns the exit status.
Result<int> run_convert(const ConvertCommandOptions& options);

}  // namespace edgedraft::client
