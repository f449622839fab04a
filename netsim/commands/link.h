#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft::netsim {

struct LinkCommandOptions {
  std::string profile = "paper-5g";
  std::string driver = "auto";
  std::uint64_t seed = 1;
  std::string at_server;
  std::uint16_t port = 7420;
  bool list = false;
  bool dry_run = false;
  std::uint32_t simulate = 0;
  std::vector<std::string> command;
};

void declare_link(CLI::App& app, LinkCommandOptions& options);

// Builds a link and holds it while the command runs, or until Ctrl-C. Returns the command's exit
// status.
Result<int> run_link(const LinkCommandOptions& options);

}  // namespace edgedraft::netsim
