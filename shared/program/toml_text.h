#pragma once

#include <toml++/toml.h>

#include <filesystem>
#include <string_view>

namespace edgedraft {

// toml::parse for text of any origin: refuses what the library has undefined behaviour for, a
// character outside ASCII that stands neither in quotes nor in a comment (toml++ 3.3,
// is_non_ascii_horizontal_whitespace).
// Throws    toml::parse_error
toml::table parse_toml(std::string_view text, const std::filesystem::path& file);
// The same of a file. Throws toml::parse_error, also where it cannot be read.
toml::table parse_toml_file(const std::filesystem::path& file);

}  // namespace edgedraft
