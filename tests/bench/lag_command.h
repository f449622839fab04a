#pragma once

#include <cstdint>
#include <vector>

#include "shared/base/error.h"
#include "tests/bench/drafter_arms.h"

namespace CLI {
class App;
}

namespace edgedraft::bench {

struct LagOptions {
  ArmOptions arms;
  std::uint32_t prompts_per_task = 0;  // 0: all
  std::vector<std::uint32_t> lags{0, 1, 2, 4, 8, 16, 32};
  std::uint32_t max_tokens = 160;
  float temperature = 0.0f;
  std::uint64_t seed = 0;
  std::uint32_t threads = 0;
  std::string against;
  bool json = false;
};

void declare_lag(CLI::App& app, LagOptions& options);

// Prints how often drafts are right by lag, rank, depth and score.
Result<int> run_lag(const LagOptions& options);

}  // namespace edgedraft::bench
