#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace edgedraft {

// A text as all its spellings have it in common: without case, accents, strokes and ligatures,
// compatibility forms and invisible characters, with one sign for quotation marks and apostrophes
// and one for dashes, digits of ASCII, and each run of blanks, with the marks of a quotation in it,
// one space.
struct FoldedText {
  std::u32string text;
  // The bytes that each character stands for.
  std::vector<std::uint32_t> begins;
  std::vector<std::uint32_t> ends;
  bool has_zero_width = false;  // spaces without width, and joiners
};

// Bytes that are no UTF-8 stand for themselves. `zero_width_is_blank`: a space without width is
// one like others, as some editors write it for a blank.
FoldedText fold(std::string_view text, bool zero_width_is_blank = false);

// Letters and digits alone, for what is written in groups: "DE89 3704-0044".
FoldedText compact(const FoldedText& folded);

bool is_letter_or_digit(char32_t character);
// A digit of any script.
bool is_decimal_digit(char32_t character);
// The same digit in ASCII. Requires  is_decimal_digit(digit)
char32_t ascii_digit(char32_t digit);

// A letter of a script that puts no spaces between words: a word may end at either side of it.
bool is_unspaced(char32_t character);

}  // namespace edgedraft
