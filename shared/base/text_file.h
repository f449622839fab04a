#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "shared/base/error.h"

namespace edgedraft {

// Limit for a text that a command reads whole.
inline constexpr std::uint64_t kWholeTextBytesMax = 1u << 30;

// Reads a whole file.
// Errors    io naming the file; usage if it has more than `bytes_max`
Result<std::string> read_text_file(const std::filesystem::path& file, std::uint64_t bytes_max);

// As above; "-" reads standard input.
Result<std::string> read_text(const std::filesystem::path& file, std::uint64_t bytes_max);

}  // namespace edgedraft
