#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace edgedraft::chat {

// Python's str.strip, lstrip, rstrip, upper and lower. Letters beyond ASCII keep their case.
std::string apply_method(std::string_view name, std::string_view text);

// Characters of UTF-8 text.
std::int64_t character_count(std::string_view text);

}  // namespace edgedraft::chat
