#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "shared/base/error.h"

namespace edgedraft {

// The longest text that a command takes as a whole.
inline constexpr std::uint64_t kWholeTextBytesMax = 1u << 30;

// The whole of a file.
// Errors    io naming the file; usage if it has more than `bytes_max`
Result<std::string> read_text_file(const std::filesystem::path& file, std::uint64_t bytes_max);

// The same, or the whole of standard input if the name is "-".
Result<std::string> read_text(const std::filesystem::path& file, std::uint64_t bytes_max);

}  // namespace edgedraft
