#include "shared/base/printable.h"

#include <cstddef>

namespace edgedraft {
namespace {

constexpr unsigned char kC1Lead = 0xC2;  // U+0080 to U+009F are C2 80 to C2 9F in UTF-8

// True for the three bytes of a character that breaks lines (U+2028, U+2029) or changes the
// direction of text (U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069).
bool is_layout_sign(unsigned char first, unsigned char second, unsigned char third) {
  if (first != 0xE2) return false;
  if (second == 0x80) return third == 0x8E || third == 0x8F || (third >= 0xA8 && third <= 0xAE);
  return second == 0x81 && third >= 0xA6 && third <= 0xA9;
}

unsigned char byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

void append_escaped(unsigned char byte, std::string& to) {
  constexpr std::string_view kHex = "0123456789abcdef";
  to += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
}

}  // namespace

std::string printable(std::string_view text, Lines lines) {
  std::string safe;
  safe.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const unsigned char byte = byte_at(text, i);
    const unsigned char next = byte_at(text, i + 1);
    const bool layout = lines == Lines::many && (byte == '\n' || byte == '\t');
    if (byte == kC1Lead && next >= 0x80 && next <= 0x9F) {
      append_escaped(next, safe);
      ++i;
    } else if (is_layout_sign(byte, next, byte_at(text, i + 2))) {
      for (std::size_t end = i + 3; i < end; ++i) append_escaped(byte_at(text, i), safe);
      --i;
    } else if (!layout && (byte < 0x20 || byte == 0x7F)) {
      append_escaped(byte, safe);
    } else {
      safe += text[i];
    }
  }
  return safe;
}

}  // namespace edgedraft
