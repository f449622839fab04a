#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "tests/bench/drafter_arms.h"

namespace CLI {
class App;
}

namespace edgedraft::bench {

struct DraftersOptions {
  ArmOptions arms;
  std::uint32_t prompts_per_task = 0;  // 0: all
  std::uint32_t chain = 4;
  std::uint32_t max_tokens = 160;
  std::vector<std::uint32_t> lags{4, 8, 16};
  std::vector<std::string> links{"lan", "paper-5g", "paper-4g"};
  std::filesystem::path pace_profile;  // empty: times are those of this machine
  bool padded_payloads = false;
  float temperature = 0.0f;
  std::uint64_t seed = 0;
  std::uint32_t threads = 1;
  std::string device = "cpu";
  std::string features = "auto";
  bool json = false;
};

void declare_drafters(CLI::App& app, DraftersOptions& options);

// Prints a row per drafter. Returns the exit status: 1 if an answer is not the plain one.
Result<int> run_drafters(const DraftersOptions& options);

}  // namespace edgedraft::bench
