#pragma once

#include <toml++/toml.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "shared/base/error.h"

namespace edgedraft {

// toml::parse for untrusted text. Refuses non-ASCII characters outside quotes and comments, for
// which the library has undefined behaviour (toml++ 3.3, is_non_ascii_horizontal_whitespace).
// Errors    usage naming the file and, after `line_mark`, the line
Result<toml::table> parse_toml(std::string_view text, const std::filesystem::path& file,
                               const std::string& line_mark = ", line ");

}  // namespace edgedraft
