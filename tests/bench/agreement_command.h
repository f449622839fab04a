#pragma once

#include <filesystem>
#include <string>

#include "shared/base/error.h"

namespace CLI {
class App;
}

namespace edgedraft::bench {

struct AgreementOptions {
  std::filesystem::path model;
  std::filesystem::path greedy;
  std::string recorded_as;
  float margin = 1e-2f;
  std::filesystem::path texts;
  std::filesystem::path ids;
};

void declare_agreement(CLI::App& app, AgreementOptions& options);

// Whether a model repeats the ids that another implementation recorded. Returns the exit status: 1
// if it does not.
Result<int> run_agreement(const AgreementOptions& options);

}  // namespace edgedraft::bench
