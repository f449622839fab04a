#pragma once

#include <filesystem>
#include <optional>

#include "shared/base/error.h"

namespace edgedraft::netsim {

struct Report {
  std::filesystem::path file;
  // Reason for the first missing plot: unsupported without gnuplot, or io. The page shows each
  // plot's own reason.
  std::optional<Error> undrawn;
};

// Writes report.html for a results folder: one self-contained file with tables and plots, for light
// and dark screens of any width.
//
// Errors    io; usage for a folder without results
Result<Report> write_report(const std::filesystem::path& results);

}  // namespace edgedraft::netsim
