#include "shared/model/tokenizer/byte_letters.h"

#include <array>
#include <cstddef>

#include "shared/model/utf8.h"

namespace edgedraft {
namespace {

constexpr std::size_t kLetterCount = 0x144;  // code points up to the last letter

struct Tables {
  std::array<std::string, 256> letters;
  std::array<int, kLetterCount> bytes;  // by code point; -1: no letter

  Tables() {
    bytes.fill(-1);
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool printable =
          (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
      const unsigned code = printable ? byte : next++;
      letters[byte] = to_utf8(code);
      bytes[code] = static_cast<int>(byte);
    }
  }
};

const Tables& tables() {
  static const Tables tables;
  return tables;
}

}  // namespace

std::string_view letter_of(unsigned char byte) {
  return tables().letters[byte];
}

std::string to_letters(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) text += letter_of(static_cast<unsigned char>(byte));
  return text;
}

std::optional<std::string> from_letters(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t code = static_cast<unsigned char>(text[i]);
    if (code >= 0x80) {
      // All letters are below U+0800: two bytes of UTF-8.
      if (code < 0xC2 || code > 0xDF || ++i == text.size()) return std::nullopt;
      code = (code & 0x1F) << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
    }
    if (code >= kLetterCount || tables().bytes[code] < 0) return std::nullopt;
    bytes += static_cast<char>(tables().bytes[code]);
  }
  return bytes;
}

}  // namespace edgedraft
