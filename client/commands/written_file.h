#pragma once

#include <filesystem>
#include <span>

#include "shared/base/error.h"

namespace edgedraft::client {

// Checks that a command may write to `output`.
//
// Errors    usage: it has no name, is one of the files `read`, or exists without `replaces`
Result<void> check_written(const std::filesystem::path& output,
                           std::span<const std::filesystem::path> read, bool replaces);

}  // namespace edgedraft::client
