#pragma once

namespace edgedraft {

// Only ASCII counts, whatever the locale.
constexpr bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}
// The value of a hexadecimal digit; -1 for any other character.
constexpr int hex_digit(char c) {
  if (is_ascii_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace edgedraft
