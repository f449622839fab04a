#pragma once

#include <filesystem>

#include "shared/base/error.h"

namespace edgedraft {

// Rejects files that all users of the machine may read, write or execute, as ssh does for keys.
// Tokens and private keys may be accessible to their owner and to a group.
// Errors    io naming the file; usage naming it and the remedy
Result<void> check_private(const std::filesystem::path& file);
// As above, for an open file; `file` is its name in messages.
Result<void> check_private(int descriptor, const std::filesystem::path& file);

}  // namespace edgedraft
