#pragma once

namespace edgedraft {

// Only ASCII counts, whatever the locale.
constexpr bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace edgedraft
