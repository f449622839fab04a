#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace edgedraft {

// ASCII only, in every locale.
constexpr bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}
// Value of a hexadecimal digit; -1 for any other character.
constexpr int hex_digit(char c) {
  if (is_ascii_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}
// Value of one to eight hexadecimal digits; nullopt for any other text.
constexpr std::optional<std::uint32_t> hex_number(std::string_view digits) {
  if (digits.empty() || digits.size() > 8) return std::nullopt;
  std::uint32_t number = 0;
  for (const char c : digits) {
    if (hex_digit(c) < 0) return std::nullopt;
    number = 16 * number + static_cast<std::uint32_t>(hex_digit(c));
  }
  return number;
}

}  // namespace edgedraft
