#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft::bench {

struct EngineOptions {
  std::string model;
  std::string shape = "tinyllama";
  std::string type = "q8_0";
  std::vector<std::uint32_t> widths = {1,  2,  3,  4,  5,  6,  7,  8,  10, 12, 14,
                                       16, 20, 24, 32, 40, 48, 62, 64, 96, 128};
  std::uint32_t context = 64;
  std::uint32_t prompt = 512;
  std::uint32_t threads = 0;
  std::string device = "cpu";
  std::string instruction_set;
  std::string peer;
  bool deterministic = false;
  bool no_cuda_graphs = false;
  std::uint32_t mismatch = 0;
  std::uint32_t sessions = 1;
  std::uint32_t page = 0;
  std::string kv_type = "f32";
  double seconds = 0.5;
  bool json = false;
};

void declare_engine(CLI::App& app, EngineOptions& options);

// Times a decoder's passes for different numbers of rows. Returns the exit status.
Result<int> run_engine(const EngineOptions& options);

}  // namespace edgedraft::bench
