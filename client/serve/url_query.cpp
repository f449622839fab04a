#include "client/serve/url_query.h"

#include <algorithm>
#include <charconv>

namespace edgedraft {

std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* const end = text.data() + std::min(i + 3, text.size());
    const bool is_escape = text[i] == '%' && i + 2 < text.size() &&
                           std::from_chars(text.data() + i + 1, end, byte, 16).ptr == end;
    plain += is_escape ? static_cast<char>(byte) : text[i];
    if (is_escape) i += 2;
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

}  // namespace edgedraft
