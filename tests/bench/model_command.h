#pragma once

#include <filesystem>
#include <string>

#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft::bench {

struct ModelOptions {
  std::string shape = "tinyllama";
  std::string type = "q8_0";
  std::filesystem::path output;
};

void declare_model(CLI::App& app, ModelOptions& options);

// Writes a model of random weights. Returns the exit status.
Result<int> run_model(const ModelOptions& options);

}  // namespace edgedraft::bench
