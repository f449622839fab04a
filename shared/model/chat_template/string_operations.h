#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/model/marked_text.h"

namespace edgedraft::chat {

// Python's operations on strings. What was foreign in a text stays foreign in what becomes of it.

// Which ends are stripped.
enum class Strip : unsigned char { both, left, right };

// Without the characters of `characters` at the ends; without white space where there are none.
MarkedText strip(const MarkedText& text, Strip ends, std::optional<std::string_view> characters);

// str.upper, lower, capitalize and title, and "words" for Jinja's filter title, to which fewer
// characters end a word. Each character becomes one: Python makes two of some, as of an upper "ß".
MarkedText change_case(const MarkedText& text, std::string_view name);

// Characters of UTF-8 text.
std::int64_t character_count(std::string_view text);

// Where each character begins, and the end.
std::vector<std::size_t> character_bounds(std::string_view text);

// The parts between `separator`, at most `splits` times; between runs of white space where it is
// empty. Negative: no limit.
std::vector<MarkedText> split(const MarkedText& text, std::string_view separator,
                              std::int64_t splits);

}  // namespace edgedraft::chat
