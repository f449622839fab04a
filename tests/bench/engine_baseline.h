#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "shared/base/error.h"

namespace edgedraft::bench {

// The smallest ratio of a measured share to the recorded one that is no regression. The lowest of
// 156 ratios to the median of repeats was 0.85, on a machine that other programs loaded.
inline constexpr double kBaselineFloor = 0.8;

// The recorded shares of the machine's limit, one per width. The file is a list of entries with a
// "setting" and its "shares" by width. The first entry whose setting is part of `report` counts.
//
// Errors    io; bad_file: a share is missing or not positive; unsupported: no such entry
Result<std::vector<double>> read_baseline(const std::filesystem::path& file,
                                          const nlohmann::json& report,
                                          std::span<const std::uint32_t> widths);

}  // namespace edgedraft::bench
