#pragma once

#include <algorithm>
#include <string_view>

#include "shared/protocol/limits.h"

namespace edgedraft {

// True for a name that a replica may have and a client may put into SNI: 1 to kReplicaBytesMax
// lower-case letters, digits, hyphens and dots, as in host names, and not a numeric address
// (RFC 6066, section 3).
constexpr bool is_replica_name(std::string_view name) {
  if (name.empty() || name.size() > kReplicaBytesMax) return false;
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  char before = '.';
  for (const char c : name) {
    const bool is_alphanumeric = is_letter(c) || (c >= '0' && c <= '9');
    // Labels are not empty and neither begin nor end with a hyphen.
    if (!is_alphanumeric && c != '-' && c != '.') return false;
    if (c == '-' && before == '.') return false;
    if (c == '.' && (before == '.' || before == '-')) return false;
    before = c;
  }
  return before != '.' && before != '-' && std::ranges::any_of(name, is_letter);
}

}  // namespace edgedraft
