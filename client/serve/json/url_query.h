#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace edgedraft::client {

// Decodes "%3A" to ":". Other text stays unchanged.
std::string unescaped(std::string_view text);
// Returns the first field of that name in "a=1&b=2", unescaped.
std::optional<std::string> query_field(std::string_view query, std::string_view name);
// Parses a number of digits only; empty for other text.
std::optional<std::size_t> number_of(const std::string& text);

}  // namespace edgedraft::client
