#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft::bench {

struct DetectorsOptions {
  std::uint32_t examples = 1000;  // of each form
  std::uint64_t seed = 1;
  std::vector<std::filesystem::path> data;
  bool json = false;
};

void declare_detectors(CLI::App& app, DetectorsOptions& options);

// Prints how many values of each form the detectors of private text find, and what they find in
// texts that hold none.
Result<int> run_detectors(const DetectorsOptions& options);

}  // namespace edgedraft::bench
