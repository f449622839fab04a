#include "client/privacy/folded_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>

namespace edgedraft::client {
namespace {

// Decompositions have at most 18 characters (U+FDFA).
constexpr std::size_t kPartsMax = 32;
// Stands for invalid UTF-8 bytes: beyond the last code point.
constexpr char32_t kForeignBytes = 0x110000;
constexpr auto kFolding =
    static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT | UTF8PROC_CASEFOLD |
                                   UTF8PROC_IGNORE | UTF8PROC_STRIPMARK);

// Letters without a decomposition, as typed on keyboards that lack them. Sorted.
constexpr std::pair<char32_t, std::u32string_view> kPlainLetters[] = {
    {U'æ', U"ae"}, {U'ð', U"d"}, {U'ø', U"o"}, {U'þ', U"th"}, {U'đ', U"d"},  {U'ħ', U"h"},
    {U'ı', U"i"},  {U'ĸ', U"k"}, {U'ł', U"l"}, {U'ŋ', U"n"},  {U'œ', U"oe"}, {U'ŧ', U"t"},
    {U'ƀ', U"b"},  {U'ƈ', U"c"}, {U'ƚ', U"l"}, {U'ƶ', U"z"},  {U'ǥ', U"g"},  {U'ȷ', U"j"},
    {U'ȼ', U"c"},  {U'ɇ', U"e"}, {U'ɉ', U"j"}, {U'ɍ', U"r"},  {U'ɏ', U"y"},  {U'ɓ', U"b"},
    {U'ɖ', U"d"},  {U'ɗ', U"d"}, {U'ə', U"e"}, {U'ɨ', U"i"},  {U'ɫ', U"l"},  {U'ʉ', U"u"},
    {U'ᵽ', U"p"},  {U'ⱡ', U"l"}, {U'ⱥ', U"a"}, {U'ⱦ', U"t"}};

utf8proc_category_t category(char32_t character) {
  if (character >= kForeignBytes) return UTF8PROC_CATEGORY_CN;
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

bool is_blank(char32_t character) {
  if (character < 0x80) return character <= 0x20;
  return category(character) >= UTF8PROC_CATEGORY_ZS && category(character) <= UTF8PROC_CATEGORY_ZP;
}

bool is_zero_width(char32_t character) {
  return (character >= 0x200B && character <= 0x200D) || character == 0x2060 || character == 0xFEFF;
}

// Maps quotation marks and apostrophes to one character, because programs convert between them;
// dashes to another. 0: any other character.
char32_t plain_sign(char32_t character) {
  if (character < 0x80) return character == '"' || character == '`' ? U'\'' : 0;
  constexpr std::u32string_view kQuotes =
      U"\u00B4\u02B9\u02BA\u02BB\u02BC\u02BD\u02BE\u02BF\u02C8\u02CA\u02CB\u02EE\u055A\u05F3\u05F4"
      U"\u07F4\u07F5\u1FBD\u1FBF\u1FEF\u1FFD\u1FFE\u201A\u201E\u2032\u2033\u2034\u2035\u2036\u2037"
      U"\u275B\u275C\u275D\u275E\u301D\u301E\u301F\uA78B\uA78C\uFF02\uFF07\uFF40";
  constexpr std::u32string_view kDashes = U"\u02D7\u2043\u2212\u2796";
  switch (category(character)) {
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
      return U'\'';
    case UTF8PROC_CATEGORY_PD:
      return U'-';
    default:
      if (kQuotes.find(character) != kQuotes.npos) return U'\'';
      return kDashes.find(character) != kDashes.npos ? U'-' : 0;
  }
}

void append(FoldedText& to, char32_t character, std::size_t begin, std::size_t end) {
  to.text += character;
  to.begins.push_back(static_cast<std::uint32_t>(begin));
  to.ends.push_back(static_cast<std::uint32_t>(end));
}

// Merges a blank with the one before it.
void append_blank(FoldedText& to, std::size_t begin, std::size_t end) {
  if (!to.text.empty() && to.text.back() == U' ') {
    to.ends.back() = static_cast<std::uint32_t>(end);
  } else {
    append(to, U' ', begin, end);
  }
}

// A character or a part of its decomposition.
void append_plain(FoldedText& to, char32_t character, std::size_t begin, std::size_t end) {
  if (is_blank(character)) return append_blank(to, begin, end);
  if (const char32_t sign = plain_sign(character)) return append(to, sign, begin, end);
  if (character < 0x80) return append(to, character, begin, end);
  if (is_decimal_digit(character)) return append(to, ascii_digit(character), begin, end);
  const auto* const plain = std::ranges::lower_bound(kPlainLetters, character, {},
                                                     [](const auto& entry) { return entry.first; });
  if (plain == std::end(kPlainLetters) || plain->first != character) {
    return append(to, character, begin, end);
  }
  for (const char32_t letter : plain->second) append(to, letter, begin, end);
}

}  // namespace

bool is_letter_or_digit(char32_t character) {
  const utf8proc_category_t kind = category(character);
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO) ||
         (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO);
}

bool is_decimal_digit(char32_t character) {
  return category(character) == UTF8PROC_CATEGORY_ND;
}

char32_t ascii_digit(char32_t digit) {
  if (digit >= 0x1D7CE && digit <= 0x1D7FF) return U'0' + (digit - 0x1D7CE) % 10;
  const char32_t row = digit & ~char32_t{0xF};
  return U'0' + digit - (is_decimal_digit(row) ? row : row + 6);
}

// Source    Unicode 15, Blocks.txt
bool is_unspaced(char32_t character) {
  constexpr std::pair<char32_t, char32_t> kBlocks[] = {
      {0x0E00, 0x0EFF},    // Thai, Lao
      {0x1000, 0x109F},    // Myanmar
      {0x1780, 0x17FF},    // Khmer
      {0x3000, 0x312F},    // CJK symbols, Hiragana, Katakana, Bopomofo
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
  // A number continues in any script.
  return !is_decimal_digit(character);
}

FoldedText fold(std::string_view text, bool zero_width_is_blank) {
  FoldedText folded;
  bool quotes = false;  // only blanks and quotation marks since the line began
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t taken =
        utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    const std::size_t end = at + static_cast<std::size_t>(taken > 0 ? taken : 1);
    const auto character =
        taken > 0 ? static_cast<char32_t>(code) : kForeignBytes + char32_t{bytes[at]};
    folded.has_zero_width = folded.has_zero_width || is_zero_width(character);
    if (is_blank(character) || (quotes && character == U'>') ||
        (zero_width_is_blank && is_zero_width(character))) {
      append_blank(folded, at, end);
      quotes = quotes || character == U'\n';
    } else if (quotes = false; character >= kForeignBytes) {
      append(folded, character, at, end);
    } else if (character < 0x80) {
      append_plain(folded, character >= U'A' && character <= U'Z' ? character + 0x20 : character,
                   at, end);
    } else if (const char32_t sign = plain_sign(character)) {
      append(folded, sign, at, end);
    } else {
      std::array<utf8proc_int32_t, kPartsMax> parts{};
      int last_class = 0;
      const utf8proc_ssize_t count = utf8proc_decompose_char(
          code, parts.data(), static_cast<utf8proc_ssize_t>(parts.size()), kFolding, &last_class);
      // A removed character belongs to the one before it, as accents do.
      if (count == 0 && !folded.ends.empty()) folded.ends.back() = static_cast<std::uint32_t>(end);
      for (utf8proc_ssize_t i = 0; i < count; ++i) {
        append_plain(folded, static_cast<char32_t>(parts[static_cast<std::size_t>(i)]), at, end);
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

}  // namespace edgedraft::client
