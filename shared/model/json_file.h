#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "shared/base/error.h"

namespace edgedraft {

// Reads a JSON object from a file of at most 64 MiB, nested at most kJsonDepthMax deep.
// Errors    io; bad_file naming the file
Result<nlohmann::json> read_json_object(const std::filesystem::path& path);

// Members of `object`; nullopt if the key is missing or null.
// Errors    bad_file naming the key if its value has another type
Result<std::optional<std::uint32_t>> json_u32(const nlohmann::json& object, const char* key);
Result<std::optional<double>> json_number(const nlohmann::json& object, const char* key);
Result<std::optional<bool>> json_bool(const nlohmann::json& object, const char* key);
Result<std::optional<std::string>> json_string(const nlohmann::json& object, const char* key);

}  // namespace edgedraft
