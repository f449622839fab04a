#pragma once

#include <filesystem>
#include <optional>

#include "shared/base/error.h"

namespace edgedraft::netsim {

struct Report {
  std::filesystem::path file;
  // Why the first of the plots that are missing could not be drawn: unsupported without gnuplot, or
  // io. Each has its own reason in its place.
  std::optional<Error> undrawn;
};

// Makes report.html of a folder of results: one file with everything in it, tables and plots, for
// light and dark screens of any width.
//
// Errors    io; usage for a folder without results
Result<Report> write_report(const std::filesystem::path& results);

}  // namespace edgedraft::netsim
