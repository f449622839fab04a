#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "client/generation/telemetry/cycle_record.h"
#include "shared/base/error.h"

namespace edgedraft::lab {

// The drafter of an answer.
struct CycleLogHead {
  std::string drafter;
  std::string bundle;
  std::string pace_profile;  // empty: none
  std::optional<double> synthetic_acceptance;
};

// Writer of the --cycles file (docs/experiments.md, "Cycles"). Its JSON lines are one for the
// answer, one per record, and one with late drafts. Each write() flushes each line before it
// returns, so that other programs can follow and a killed client loses none.
class CycleLog {
 public:
  // Errors    io
  static Result<std::unique_ptr<CycleLog>> open(const std::filesystem::path& file,
                                                const CycleLogHead& head);
  void write(const client::CycleRecord& record);
  // After the last record. `late_drafts`: trees and offline tokens that exceeded their pace.
  //
  // Errors    io: the file is incomplete
  Result<void> close(std::uint32_t late_drafts);

 private:
  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace edgedraft::lab
