#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace edgedraft {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

inline constexpr char32_t kCodePointMax = 0x10FFFF;

// False for surrogates and above the last code point.
constexpr bool is_character(char32_t code) {
  return code <= kCodePointMax && (code < 0xD800 || code > 0xDFFF);
}

// Classifies the start of a text.
struct Utf8Front {
  enum class Kind : unsigned char {
    character,   // one whole character
    incomplete,  // the whole text is the start of one
    invalid,     // not the start of any character
  };
  Kind kind;
  std::size_t byte_count;  // size of the character, or of the bytes that one U+FFFD replaces
};

// Source    Unicode 15, table 3-7 and "U+FFFD substitution of maximal subparts"
// Requires  text not empty
Utf8Front utf8_front(std::string_view text);

// Code point of the first character.
// Requires  utf8_front(text) is a character
char32_t utf8_code_point(std::string_view text);

// UTF-8 of a code point; a surrogate gives three bytes of invalid UTF-8.
// Requires  code <= kCodePointMax
std::string to_utf8(char32_t code);

bool is_valid_utf8(std::string_view text);
// Code points of a valid UTF-8 text.
std::size_t utf8_count(std::string_view text);

// Bytes of whole characters at the start of the text.
std::size_t valid_utf8_prefix(std::string_view text);

// Moves whole characters off the front of `bytes`, replacing invalid bytes, and leaves the start of
// a character that more bytes may complete.
std::string take_whole_utf8(std::string& bytes);

}  // namespace edgedraft
