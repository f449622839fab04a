#pragma once

#include <filesystem>

#include "shared/base/error.h"

namespace edgedraft {

// Tokens and private keys are for their owner, and for a group if a service's files are kept that
// way. Files that everybody on the machine may read, write or run are refused, as ssh refuses such
// keys.
// Errors    io naming the file; usage naming it and the remedy
Result<void> check_private(const std::filesystem::path& file);
// The same of a file that is open. `file` names it.
Result<void> check_private(int descriptor, const std::filesystem::path& file);

}  // namespace edgedraft
