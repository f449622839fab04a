#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace edgedraft {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

static_assert(std::endian::native == std::endian::little,
              "files and frames are little-endian and read in place");

// Reads a little-endian number. Requires sizeof(T) readable bytes.
template <class T>
requires std::is_arithmetic_v<T> T load_le(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
requires std::is_arithmetic_v<T>
void store_le(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// a * b, or nullopt on overflow. For sizes declared by a file or a peer.
inline std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

inline std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline ByteView as_byte_view(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Lower-case hexadecimal.
std::string to_hex(ByteView bytes);

// Inverse of to_hex(); nullopt for an odd length or a non-hexadecimal character.
std::optional<Bytes> from_hex(std::string_view text);

}  // namespace edgedraft
