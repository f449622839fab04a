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

struct PlanOptions {
  std::vector<std::string> rows;  // ALPHA:GAMMA; empty: the published ones
  double c = 0.0;
  double c_hat = 0.0;
  std::filesystem::path model;
  std::filesystem::path bundle;
  std::string kind;
  std::filesystem::path prompts;
  std::vector<std::uint32_t> gammas{1, 2, 3, 4, 6, 8};
  std::uint32_t prompts_per_task = 2;
  std::uint32_t max_tokens = 96;
  std::uint32_t threads = 0;
  bool json = false;
};

void declare_plan(CLI::App& app, PlanOptions& options);

// Prints what chains are worth by formula and, with a model, what they bring.
Result<int> run_plan(const PlanOptions& options);

}  // namespace edgedraft::bench
