#include "client/privacy/folded_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>

namespace edgedraft {
namespace {

// A character's decomposition has 18 at most (U+FDFA).
constexpr std::size_t kPartsMax = 32;
// Stands for bytes that are no UTF-8: behind the last code point.
constexpr char32_t kForeignBytes = 0x110000;
constexpr auto kFolding =
    static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT | UTF8PROC_CASEFOLD |
                                   UTF8PROC_IGNORE | UTF8PROC_STRIPMARK);

bool is_blank(char32_t character) {
  if (character < 0x20) return true;
  if (character >= kForeignBytes) return false;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    default:
      return false;
  }
}

void append(FoldedText& to, char32_t character, std::size_t begin, std::size_t end) {
  to.text += character;
  to.begins.push_back(static_cast<std::uint32_t>(begin));
  to.ends.push_back(static_cast<std::uint32_t>(end));
}

// A blank joins the one before it.
void append_blank(FoldedText& to, std::size_t begin, std::size_t end) {
  if (!to.text.empty() && to.text.back() == U' ') {
    to.ends.back() = static_cast<std::uint32_t>(end);
  } else {
    append(to, U' ', begin, end);
  }
}

}  // namespace

bool is_letter_or_digit(char32_t character) {
  if (character >= kForeignBytes) return false;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return true;
    default:
      return false;
  }
}

bool is_decimal_digit(char32_t character) {
  return character < kForeignBytes &&
         utf8proc_category(static_cast<utf8proc_int32_t>(character)) == UTF8PROC_CATEGORY_ND;
}

// Source    Unicode 15, Blocks.txt
bool is_unspaced(char32_t character) {
  constexpr std::pair<char32_t, char32_t> kBlocks[] = {
      {0x0E00, 0x0EFF},    // Thai, Lao
      {0x1000, 0x109F},    // Myanmar
      {0x1780, 0x17FF},    // Khmer
      {0x3000, 0x312F},    // signs that stand for characters, Hiragana, Katakana, Bopomofo
      {0x31A0, 0x31FF},    // Bopomofo and Katakana, extended
      {0x3400, 0x4DBF},    // Han, extension A
      {0x4E00, 0x9FFF},    // Han
      {0xA9E0, 0xA9FF},    // Myanmar, extended B
      {0xAA60, 0xAA7F},    // Myanmar, extended A
      {0xF900, 0xFAFF},    // Han, for compatibility
      {0x1AFF0, 0x1B16F},  // Kana, extended
      {0x20000, 0x3FFFF},  // Han, further extensions
  };
  const bool in_block = std::ranges::any_of(kBlocks, [character](const auto& block) {
    return character >= block.first && character <= block.second;
  });
  if (!in_block || !is_letter_or_digit(character)) return false;
  // A number goes on in any script.
  return !is_decimal_digit(character);
}

FoldedText fold(std::string_view text) {
  FoldedText folded;
  bool quotes = false;  // since a line began there were blanks and quotation marks alone
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t taken =
        utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    const std::size_t end = at + static_cast<std::size_t>(taken > 0 ? taken : 1);
    if (taken <= 0) {
      append(folded, kForeignBytes + bytes[at], at, end);
      quotes = false;
    } else if (is_blank(static_cast<char32_t>(code)) || (quotes && code == '>')) {
      append_blank(folded, at, end);
      quotes = quotes || code == '\n';
    } else {
      quotes = false;
      std::array<utf8proc_int32_t, kPartsMax> parts{};
      int last_class = 0;
      const utf8proc_ssize_t count = utf8proc_decompose_char(
          code, parts.data(), static_cast<utf8proc_ssize_t>(parts.size()), kFolding, &last_class);
      // What is left out belongs to what stands before it, as accents do.
      if (count == 0 && !folded.ends.empty()) folded.ends.back() = static_cast<std::uint32_t>(end);
      for (utf8proc_ssize_t i = 0; i < count; ++i) {
        const auto part = static_cast<char32_t>(parts[static_cast<std::size_t>(i)]);
        if (is_blank(part)) {
          append_blank(folded, at, end);
        } else {
          append(folded, part, at, end);
        }
      }
    }
    at = end;
  }
  return folded;
}

FoldedText compact(const FoldedText& folded) {
  FoldedText compacted;
  for (std::size_t i = 0; i < folded.text.size(); ++i) {
    if (!is_letter_or_digit(folded.text[i])) continue;
    append(compacted, folded.text[i], folded.begins[i], folded.ends[i]);
  }
  return compacted;
}

}  // namespace edgedraft
