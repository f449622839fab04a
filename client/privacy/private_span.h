#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace edgedraft::client {

// Type of a private text, shown in its placeholder.
enum class PrivateType : std::uint8_t { text, name, mail, phone, card, iban, address, key };

// Four letters, as in "[MAIL_001]".
std::string_view label_of(PrivateType type);
// "mail", as in options and reports.
std::string_view to_string(PrivateType type);

// True if digit or letter grouping varies for this type.
bool is_grouped(PrivateType type);

// Bytes [begin, end) of a text.
struct PrivateSpan {
  std::size_t begin;
  std::size_t end;
  PrivateType type;
  bool operator==(const PrivateSpan&) const = default;
};

}  // namespace edgedraft::client
