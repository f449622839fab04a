#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace edgedraft {

// What a private text is, as its placeholder says.
enum class PrivateType : std::uint8_t { text, name, mail, phone, card, iban, address, key };

// Four letters, as in "[MAIL_001]".
std::string_view label_of(PrivateType type);
// "mail", as options and reports name it.
std::string_view to_string(PrivateType type);

// Whether people write such values in groups, one so and another so.
bool is_grouped(PrivateType type);

// Bytes [begin, end) of a text.
struct PrivateSpan {
  std::size_t begin;
  std::size_t end;
  PrivateType type;
  bool operator==(const PrivateSpan&) const = default;
};

}  // namespace edgedraft
