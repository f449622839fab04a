#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace edgedraft {

// "%3A" as ":". What is no escape stands for itself.
std::string unescaped(std::string_view text);
// The first field of this name in "a=1&b=2", unescaped.
std::optional<std::string> query_field(std::string_view query, std::string_view name);
// The number that digits alone make; nothing for other texts.
std::optional<std::size_t> number_of(const std::string& text);

}  // namespace edgedraft
