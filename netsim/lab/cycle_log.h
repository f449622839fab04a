#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "client/generation/cycle_record.h"
#include "shared/base/error.h"

namespace edgedraft {

// What drafts for an answer.
struct CycleLogHead {
  std::string drafter;
  std::string bundle;
  std::string pace_profile;  // empty: none
  std::optional<double> synthetic_acceptance;
};

// The file of --cycles: JSON lines, the first about the answer, then one per record, then one with
// what was late (docs/experiments.md, "Cycles"). Each line is on its way to the disk when write()
// returns, so that others can follow and a killed client loses none.
class CycleLog {
 public:
  // Errors    io
  static Result<std::unique_ptr<CycleLog>> open(const std::filesystem::path& file,
                                                const CycleLogHead& head);
  void write(const CycleRecord& record);
  // After the last record. `late_drafts`: trees and offline tokens that took longer than the pace
  // kept for them.
  //
  // Errors    io: not all of it is in the file
  Result<void> close(std::uint32_t late_drafts);

 private:
  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace edgedraft
