#pragma once

#include <filesystem>

#include "shared/base/error.h"

namespace edgedraft::netsim {

// Makes report.html of a folder of results: one file with everything in it, tables and plots, for
// light and dark screens of any width. Returns its path.
//
// Errors    io; usage for a folder without results; unsupported without gnuplot
Result<std::filesystem::path> write_report(const std::filesystem::path& results);

}  // namespace edgedraft::netsim
