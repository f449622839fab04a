#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace edgedraft {

// Byte-level vocabularies spell every byte as one printable character: "Ġthe" is " the".
//
// Source    GPT-2's encoder: printable Latin-1 stands for itself, the other 68 bytes for U+0100 on

// Character of a byte, in UTF-8.
std::string_view letter_of(unsigned char byte);

// Spells bytes as such characters.
std::string to_letters(std::string_view bytes);

// Inverse; nullopt if a character stands for no byte.
std::optional<std::string> from_letters(std::string_view text);

}  // namespace edgedraft
