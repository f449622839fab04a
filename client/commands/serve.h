#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "client/commands/client_options.h"

namespace CLI {
class App;
}

namespace edgedraft::client {

struct ServeOptions {
  ServeOptions() {
    answer.config.generation.tokens_max = 4096;
    answer.private_detect = {"mail", "card", "iban", "key"};
  }

  OptionValues answer;
  std::string listen = "127.0.0.1:7430";
  std::filesystem::path api_key_file;
  std::vector<std::string> allow_origins;
  std::vector<std::string> allow_hosts;
  std::string alias;  // empty: the bundle's file name
  std::string offline = "keep";
  std::uint32_t hold_ms = 3000;
  std::string route = "server";
  double handover_below = 0.5;
  std::uint32_t conversations = 64;
  std::optional<std::string> page;  // conversation file, "memory" or "off"
};

void declare_serve(CLI::App& app, ServeOptions& options);

// Serves the local API until interrupted. Returns the exit status.
Result<int> run_serve(const ServeOptions& options);

}  // namespace edgedraft::client
