#pragma once

#include <cstdint>
#include <filesystem>

#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft::client {

struct PerplexityOptions {
  std::filesystem::path model;
  std::filesystem::path file;  // "-": standard input
  std::int64_t window = 512;   // tokens
  bool bos = false;            // even if the tokenizer does not request it
  std::int64_t threads = 0;
};

void declare_perplexity(CLI::App& app, PerplexityOptions& options);

// Prints a model's perplexity on a text. Returns the exit status.
Result<int> run_perplexity(const PerplexityOptions& options);

}  // namespace edgedraft::client
