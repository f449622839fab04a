#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace edgedraft {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

inline constexpr char32_t kCodePointMax = 0x10FFFF;

// False for surrogates and beyond the last code point.
constexpr bool is_character(char32_t code) {
  return code <= kCodePointMax && (code < 0xD800 || code > 0xDFFF);
}

// What the front of a text is.
struct Utf8Front {
  enum class Kind : unsigned char {
    character,   // one whole character
    incomplete,  // all of the text is the beginning of one
    invalid,     // no character begins so
  };
  Kind kind;
  std::size_t byte_count;  // of the character, or of what one U+FFFD replaces
};

// Source    Unicode 15, table 3-7 and "U+FFFD substitution of maximal subparts"
// Requires  text not empty
Utf8Front utf8_front(std::string_view text);

// The code point of the character at the text's front.
// Requires  utf8_front(text) is a character
char32_t utf8_code_point(std::string_view text);

// The bytes of a code point; a surrogate becomes three bytes that are no UTF-8.
// Requires  code <= kCodePointMax
std::string to_utf8(char32_t code);

bool is_valid_utf8(std::string_view text);
// Code points of a text that is UTF-8.
std::size_t utf8_count(std::string_view text);

// How many bytes of the text's front are whole characters.
std::size_t valid_utf8_prefix(std::string_view text);

// Moves the whole characters off the front of `bytes`, invalid bytes replaced, and leaves the
// beginning of a character that more bytes may complete.
std::string take_whole_utf8(std::string& bytes);

}  // namespace edgedraft
