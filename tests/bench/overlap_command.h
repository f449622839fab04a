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

struct OverlapOptions {
  std::filesystem::path model;
  std::filesystem::path bundle;
  std::filesystem::path prompts;
  std::filesystem::path pace_profile;
  std::vector<std::string> links{"lan", "5g-near",  "paper-5g", "4g-good",
                                 "leo", "paper-4g", "4g-busy",  "5g-far"};
  std::vector<double> acceptances{0.5, 0.6, 0.7, 0.8, 0.9};
  bool own_drafts = false;
  bool padded_payloads = false;
  std::uint32_t clients = 1;
  std::uint32_t listeners = 0;
  std::uint32_t tokens = 96;
  double seconds = 20.0;
  std::uint32_t seeds = 8;
  bool no_setup = false;
  bool json = false;
};

void declare_overlap(CLI::App& app, OverlapOptions& options);
Result<int> run_overlap(const OverlapOptions& options);

}  // namespace edgedraft::bench
