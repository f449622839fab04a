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

struct TablesOptions {
  std::filesystem::path model;
  std::vector<std::string> kinds;
  std::vector<std::filesystem::path> indexes;
  std::filesystem::path text;
  std::vector<std::uint32_t> tree{8, 6, 62};
  std::uint32_t cycles = 20'000;
  std::uint32_t conversation = 2000;
};

void declare_tables(CLI::App& app, TablesOptions& options);

// Prints how long drafters without weights take for a cycle. Returns the exit status.
Result<int> run_tables(const TablesOptions& options);

}  // namespace edgedraft::bench
