#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "tests/bench/drafter_arms.h"

namespace CLI {
class App;
}

namespace edgedraft::bench {

struct AcceptanceOptions {
  ArmOptions arms;
  std::vector<std::string> merge;
  std::vector<std::string> methods;
  bool ablations = false;
  bool drawn = false;
  std::vector<double> typical;
  std::uint32_t chain = 0;  // 0: a tree
  std::uint32_t max_tokens = 160;
  float temperature = 0.0f;
  std::uint64_t seed = 0;
  std::uint32_t threads = 0;
  std::string device = "cpu";
  std::string features = "auto";
  std::string draft_kv_type = "f32";
  std::string kv_type = "f32";
  std::string against;
  bool json = false;
};

void declare_acceptance(CLI::App& app, AcceptanceOptions& options);

// Prints each drafter's acceptance length a task. Returns the exit status: 1 if an answer is not
// the plain one.
Result<int> run_acceptance(const AcceptanceOptions& options);

}  // namespace edgedraft::bench
