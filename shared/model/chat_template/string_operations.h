#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/model/marked_text.h"

namespace edgedraft::chat {

// Python's string operations. Foreign text stays foreign in results.

// Ends to strip.
enum class Strip : unsigned char { both, left, right };

// Removes the characters of `characters` at the ends, or white space if absent.
MarkedText strip(const MarkedText& text, Strip ends, std::optional<std::string_view> characters);

// str.upper, lower, swapcase, capitalize and title, and "words" for Jinja's filter title, where
// fewer characters end a word. Maps characters one to one; Python maps some to two, e.g. an upper
// "ß".
MarkedText change_case(const MarkedText& text, std::string_view name);

// Characters in UTF-8 text.
std::int64_t character_count(std::string_view text);

// Offset of each character, and the end.
std::vector<std::size_t> character_bounds(std::string_view text);

// Splits at `separator`, at most `splits` times (negative: no limit); at runs of white space if it
// is empty.
std::vector<MarkedText> split(const MarkedText& text, std::string_view separator,
                              std::int64_t splits);

// As above, from the end.
std::vector<MarkedText> split_right(const MarkedText& text, std::string_view separator,
                                    std::int64_t splits);

// str.splitlines
std::vector<MarkedText> split_lines(const MarkedText& text, bool keeps_ends);

// str.isalpha, isdigit, isalnum, isspace, islower and isupper.
bool is_of_class(std::string_view text, std::string_view name);

// Fills with `fill` up to `width` characters; `align` is '<', '>' or '^'.
MarkedText pad(const MarkedText& text, std::size_t width, char align, const MarkedText& fill);

// Replaces & < > ' and " by HTML's names for them.
MarkedText escape_html(const MarkedText& text);

// Python's repr() of a string.
std::string quoted_like_python(std::string_view text);

}  // namespace edgedraft::chat
