#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft::client {

struct IndexCommandOptions {
  std::vector<std::filesystem::path> corpus;
  std::filesystem::path model;
  std::filesystem::path output;
  std::filesystem::path check;  // verifies this index instead of building one
  std::string split = "file";
  std::string field = "text";
  bool is_public = false;
  std::uint64_t memory_bytes = std::uint64_t{512} << 20;
  std::optional<std::int64_t> keep_tokens;
  std::optional<std::string> keep;  // default: likeliest
  std::uint64_t seed = 0;
  std::int64_t window = 512;
  bool bos = false;
  std::int64_t threads = 0;
  bool force = false;
};

void declare_index(CLI::App& app, IndexCommandOptions& options);

// Builds an index of texts for drafters that copy from it. Returns the exit status.
Result<int> run_index(const IndexCommandOptions& options);

}  // namespace edgedraft::client
