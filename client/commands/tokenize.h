#pragma once

#include <filesystem>

#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft::client {

struct TokenizeOptions {
  std::filesystem::path model;
  std::filesystem::path file;  // "-": standard input
  bool parse_special = false;
  bool chat = false;
};

void declare_tokenize(CLI::App& app, TokenizeOptions& options);

// Prints the ids of a text, or of the conversation that it begins, on one line. Returns the exit
// status.
Result<int> run_tokenize(const TokenizeOptions& options);

}  // namespace edgedraft::client
