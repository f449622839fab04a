#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "shared/base/error.h"

namespace edgedraft {

// What a program has kept for its next run, as JSON with the program's version. A file that is
// damaged, too large or of another version counts as none.
std::optional<nlohmann::json> read_cache_file(const std::filesystem::path& file);

// Replaces the file as a whole, and makes its folder. `content` is an object.
//
// Errors    io, for an empty path, too: the user has no home
Result<void> write_cache_file(const std::filesystem::path& file, nlohmann::json content);

}  // namespace edgedraft
