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

struct LagOptions {
  std::filesystem::path model;
  std::vector<std::filesystem::path> bundles;
  std::vector<std::string> kinds;
  std::filesystem::path prompts;
  std::uint32_t prompts_per_task = 0;  // 0: all
  std::vector<std::uint32_t> lags{0, 1, 2, 4, 8, 16, 32};
  std::vector<std::uint32_t> tree;  // breadth, depth, nodes; empty: 8,6,62
  std::uint32_t max_tokens = 160;
  float temperature = 0.0f;
  std::uint64_t seed = 0;
  std::uint32_t threads = 0;
  bool json = false;
};

void declare_lag(CLI::App& app, LagOptions& options);

// Prints how often drafts are right by lag, rank, depth and score.
Result<int> run_lag(const LagOptions& options);

}  // namespace edgedraft::bench
