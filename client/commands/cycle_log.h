#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "client/commands/report.h"
#include "client/experiments/paced_drafter.h"
#include "client/generation/cycle_record.h"

namespace edgedraft {

// The file of --cycles: JSON lines, the first about the answer, then one per record
// (docs/experiments.md, "Cycles"). Each line is on its way to the disk when write() returns, so
// that others can follow and a killed client loses none.
class CycleLog {
 public:
  // Errors    io
  static Result<std::unique_ptr<CycleLog>> open(const std::filesystem::path& file,
                                                const ReportedConfig& reported);
  // `paced`: the drafting in it, if a pace was kept.
  void write(const CycleRecord& record, const std::optional<PacedStep>& paced);
  // After the last record.
  //
  // Errors    io: not all of it is in the file
  Result<void> close();

 private:
  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace edgedraft
