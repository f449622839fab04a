#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "shared/base/error.h"

namespace edgedraft {

// Rejects files that all users of the machine may read, write or execute, as ssh does for keys.
// Tokens and private keys may be accessible to their owner and to a group.
// Errors    io naming the file; usage naming it and the remedy
Result<void> check_private(const std::filesystem::path& file);
// As above, for an open file; `file` is its name in messages.
Result<void> check_private(int descriptor, const std::filesystem::path& file);

// Limit for a text that a command reads whole.
inline constexpr std::uint64_t kWholeTextBytesMax = 1u << 30;

// Reads a whole file.
// Errors    io naming the file; usage if it has more than `bytes_max`
Result<std::string> read_text_file(const std::filesystem::path& file, std::uint64_t bytes_max);

// As above; "-" reads standard input.
Result<std::string> read_text(const std::filesystem::path& file, std::uint64_t bytes_max);

}  // namespace edgedraft
