#include "shared/model/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace edgedraft {

Utf8Front utf8_front(std::string_view text) {
  using Kind = Utf8Front::Kind;
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {Kind::character, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Kind::invalid, 1};
  const std::size_t total = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and code points above U+10FFFF.
  unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < total; ++i) {
    if (i == text.size()) return {Kind::incomplete, i};
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < low || byte > high) return {Kind::invalid, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Kind::character, total};
}

char32_t utf8_code_point(std::string_view text) {
  utf8proc_int32_t code = 0;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &code);
  return static_cast<char32_t>(code);
}

std::string to_utf8(char32_t code) {
  std::array<char, 4> bytes{};
  const utf8proc_ssize_t count = utf8proc_encode_char(
      static_cast<utf8proc_int32_t>(code), reinterpret_cast<utf8proc_uint8_t*>(bytes.data()));
  return {bytes.data(), static_cast<std::size_t>(count)};
}

std::size_t utf8_count(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u; }));
}

bool is_valid_utf8(std::string_view text) {
  return valid_utf8_prefix(text) == text.size();
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t count = 0;
  while (count < text.size()) {
    const Utf8Front front = utf8_front(text.substr(count));
    if (front.kind != Utf8Front::Kind::character) break;
    count += front.byte_count;
  }
  return count;
}

std::string take_whole_utf8(std::string& bytes) {
  std::string out;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const Utf8Front front = utf8_front(rest);
    if (front.kind == Utf8Front::Kind::incomplete) break;
    out += front.kind == Utf8Front::Kind::character ? rest.substr(0, front.byte_count)
                                                    : kReplacementCharacter;
    rest.remove_prefix(front.byte_count);
  }
  bytes.erase(0, bytes.size() - rest.size());
  return out;
}

}  // namespace edgedraft
