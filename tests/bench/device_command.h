#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft::bench {

struct DeviceBenchOptions {
  std::string device = "vulkan";
  std::string features = "auto";
  std::string kv_type = "f32";
  std::string shape = "demo";
  std::string type = "q8_0";
  std::vector<std::uint32_t> widths = {1, 2, 4, 8, 16, 32, 64};
  std::uint32_t context = 256;
  std::uint32_t threads = 0;
  double seconds = 0.1;
  bool no_operations = false;
  bool no_cpu = false;
  bool json = false;
};

void declare_device(CLI::App& app, DeviceBenchOptions& options);

// Times a drafter's operations and steps on a Vulkan device. Returns the exit status.
Result<int> run_device(const DeviceBenchOptions& options);

}  // namespace edgedraft::bench
