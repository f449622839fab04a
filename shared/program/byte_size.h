#pragma once

#include <cstdint>
#include <string_view>

#include "shared/base/error.h"

namespace edgedraft {

// A size as users write it: bytes, or with a unit of 1024 in letters of any case, "512MB", "2g",
// "1 KiB".
// Errors    usage saying how a size is written; the caller names the option
Result<std::uint64_t> parse_byte_size(std::string_view text);

}  // namespace edgedraft
