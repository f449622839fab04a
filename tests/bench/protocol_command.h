#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft::bench {

struct ProtocolOptions {
  std::filesystem::path model;
  std::filesystem::path bundle;
  std::string prompt = "Tell me a story about a dog and a ball.";
  std::uint32_t max_tokens = 100;
  bool json = false;
};

void declare_protocol(CLI::App& app, ProtocolOptions& options);

// Bytes of a cycle, measured on a TLS connection over loopback, against the formula. Returns the
// exit status: 1 if a payload exceeds what is allowed.
Result<int> run_protocol(const ProtocolOptions& options);

}  // namespace edgedraft::bench
