#pragma once

#include <toml++/toml.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "shared/base/error.h"

namespace edgedraft {

// toml::parse for text of any origin: refuses what the library has undefined behaviour for, a
// character outside ASCII that stands neither in quotes nor in a comment (toml++ 3.3,
// is_non_ascii_horizontal_whitespace).
// Errors    usage naming the file and, after `line_mark`, the line
Result<toml::table> parse_toml(std::string_view text, const std::filesystem::path& file,
                               const std::string& line_mark = ", line ");

}  // namespace edgedraft
