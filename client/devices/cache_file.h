#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "shared/base/error.h"

namespace edgedraft::client {

// Reads a program's cached JSON. Empty if the file is damaged, too large, or of another version.
std::optional<nlohmann::json> read_cache_file(const std::filesystem::path& file);

// Replaces the file atomically and creates its folder. `content` is an object.
//
// Errors    io; also if the path is empty because the user has no home folder
Result<void> write_cache_file(const std::filesystem::path& file, nlohmann::json content);

}  // namespace edgedraft::client
