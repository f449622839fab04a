#pragma once

#include <string>

#include "client/trust/trust_options.h"
#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft::conformance {

struct SuiteOptions {
  std::string server;  // HOST or HOST:PORT
  client::TrustOptions trust;
  std::string pattern;  // regular expression; empty: all checks
  bool lists = false;
  bool json = false;
};

void declare_suite(CLI::App& app, SuiteOptions& options);

// Runs the checks and prints their results. Returns 0 if none failed, 1 if one failed, 2 if the
// server cannot be reached.
// Errors    usage
Result<int> run_suite(const SuiteOptions& options);

}  // namespace edgedraft::conformance
