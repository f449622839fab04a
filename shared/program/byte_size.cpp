#include "shared/program/byte_size.h"

#include <cctype>
#include <charconv>
#include <limits>
#include <optional>
#include <string>

namespace edgedraft {
namespace {

// Factor of a unit; nullopt for an unknown unit.
std::optional<std::uint64_t> unit_factor(std::string_view letters) {
  std::string unit;
  for (const unsigned char c : letters) unit += static_cast<char>(std::tolower(c));
  if (unit.empty() || unit == "b") return 1;
  constexpr std::string_view kPrefixes = "kmgtpe";
  const std::size_t power = kPrefixes.find(unit.front());
  const std::string rest = unit.substr(1);
  if (power == std::string_view::npos ||
      (!rest.empty() && rest != "b" && rest != "i" && rest != "ib")) {
    return std::nullopt;
  }
  return std::uint64_t{1} << (10 * (power + 1));
}

}  // namespace

Result<std::uint64_t> parse_byte_size(std::string_view text) {
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit = text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  const auto factor = unit_factor(unit);
  if (parsed.ec == std::errc() && factor &&
      number <= std::numeric_limits<std::uint64_t>::max() / *factor) {
    return number * *factor;
  }
  return usage_error("'" + std::string(text) +
                     "': give a size in bytes, or a whole number of KB, MB, GB or TB (units of "
                     "1024), e.g. 1536MB");
}

}  // namespace edgedraft
