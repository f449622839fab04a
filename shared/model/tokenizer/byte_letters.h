#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace edgedraft {

// Byte-level vocabularies spell every byte as one printable character, so that "Ġthe" is " the".
//
// Source    GPT-2's encoder: printable Latin-1 stands for itself, the other 68 bytes for U+0100 on

// The character of a byte, in UTF-8.
std::string_view letter_of(unsigned char byte);

// Text in such letters.
std::string to_letters(std::string_view bytes);

// The inverse; nothing where a character stands for no byte.
std::optional<std::string> from_letters(std::string_view text);

}  // namespace edgedraft
