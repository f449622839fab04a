#pragma once

#include <cstdint>
#include <string_view>

#include "shared/base/error.h"

namespace edgedraft {

// Parses a size: bytes, or a number with a unit of 1024 in any case, "512MB", "2g", "1 KiB".
// Errors    usage stating the format; the caller names the option
Result<std::uint64_t> parse_byte_size(std::string_view text);

}  // namespace edgedraft
