#pragma once

#include <filesystem>
#include <string>

#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft {

struct ConvertCommandOptions {
  std::filesystem::path input;
  std::filesystem::path output;
  std::string type = "f16";
  bool bundle = false;
  std::filesystem::path drafter;
  bool force = false;
};

void declare_convert(CLI::App& app, ConvertCommandOptions& options);

// Converts a model, or makes a bundle. Returns the exit status.
Result<int> run_convert(const ConvertCommandOptions& options);

}  // namespace edgedraft
