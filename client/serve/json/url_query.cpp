#include "client/serve/json/url_query.h"

#include <algorithm>
#include <charconv>

#include "shared/base/ascii.h"

namespace edgedraft::client {

std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '%' && i + 2 < text.size();
    const auto byte = is_escape ? hex_number(text.substr(i + 1, 2)) : std::nullopt;
    plain += byte ? static_cast<char>(*byte) : text[i];
    if (byte) i += 2;
  }
  return plain;
}

std::optional<std::string> query_field(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view field = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const std::size_t equals = std::min(field.find('='), field.size());
    if (field.substr(0, equals) != name) continue;
    return unescaped(field.substr(std::min(equals + 1, field.size())));
  }
  return std::nullopt;
}

std::optional<std::size_t> number_of(const std::string& text) {
  std::size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

}  // namespace edgedraft::client
