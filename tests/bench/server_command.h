#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft::bench {

struct ServerBenchOptions {
  std::filesystem::path model;
  std::filesystem::path bundle;
  std::filesystem::path prompts;
  std::vector<std::uint32_t> clients = {1, 4, 16, 64};
  std::vector<std::uint32_t> tree = {8, 6, 62};
  double rtt_ms = 20.0;
  double seconds = 3.0;
  std::uint32_t max_tokens = 160;
  std::uint32_t threads = 0;
  std::vector<std::string> arms = {"stream", "tree", "split", "server"};
  std::filesystem::path pace_profile;
  bool cold = false;
  bool processor_time = false;
  bool json = false;
};

void declare_server(CLI::App& app, ServerBenchOptions& options);

// What one server gives to many devices. Returns the exit status.
Result<int> run_server(const ServerBenchOptions& options);

}  // namespace edgedraft::bench
