#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace edgedraft::client {

// A text in the form shared by all its spellings: without case, accents, strokes, ligatures,
// compatibility forms and invisible characters. Quotation marks and apostrophes become one
// character, dashes another, and digits ASCII. A run of blanks, including quotation prefixes,
// becomes one space.
struct FoldedText {
  std::u32string text;
  // Bytes of the original per character.
  std::vector<std::uint32_t> begins;
  std::vector<std::uint32_t> ends;
  bool has_zero_width = false;  // spaces without width, or joiners
};

// Folds `text`; keeps each invalid UTF-8 byte. `zero_width_is_blank` treats a space without width
// as a blank, as some editors use it.
FoldedText fold(std::string_view text, bool zero_width_is_blank = false);

// Keeps only letters and digits, for values written in groups: "DE89 3704-0044".
FoldedText compact(const FoldedText& folded);

bool is_letter_or_digit(char32_t character);
// True for digits of any script.
bool is_decimal_digit(char32_t character);
// Returns the same digit in ASCII. Requires  is_decimal_digit(digit)
char32_t ascii_digit(char32_t digit);

// True for letters of scripts without spaces between words: a word may end on either side of one.
bool is_unspaced(char32_t character);

}  // namespace edgedraft::client
