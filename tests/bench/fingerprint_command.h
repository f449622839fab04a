#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft::bench {

struct FingerprintOptions {
  std::filesystem::path model;
  std::filesystem::path bundle;
  std::filesystem::path prompts;
  std::filesystem::path pace_profile;
  std::string link = "paper-5g";
  std::uint32_t prompt_count = 50;
  std::uint32_t known = 12;
  std::uint32_t guessed = 4;
  std::uint32_t tokens = 96;
  double temperature = 0.3;
};

void declare_fingerprint(CLI::App& app, FingerprintOptions& options);
Result<int> run_fingerprint(const FingerprintOptions& options);

}  // namespace edgedraft::bench
