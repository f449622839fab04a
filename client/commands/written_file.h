#pragma once

#include <filesystem>
#include <span>

#include "shared/base/error.h"

namespace edgedraft {

// Whether a command may write to `output`.
//
// Errors    usage: it has no name, is one of the files that are `read`, or is there and `replaces`
//           is not set
Result<void> check_written(const std::filesystem::path& output,
                           std::span<const std::filesystem::path> read, bool replaces);

}  // namespace edgedraft
