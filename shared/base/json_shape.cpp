#include "shared/base/json_shape.h"

#include <array>
#include <limits>

#include "shared/base/ascii.h"

namespace edgedraft {
namespace {

constexpr std::size_t kNumbersAnElement = 4;

bool stays_within(std::string_view json, std::size_t members_max, std::size_t members_all_max,
                  std::size_t numbers_max) {
  std::array<std::size_t, kJsonDepthMax + 1> members{};  // members of each open object
  std::array<bool, kJsonDepthMax + 1> is_array{};        // by depth
  std::size_t numbers = 0;  // array elements; a non-number counts as several
  char last = ' ';          // last non-blank character
  std::size_t depth = 0;
  std::size_t all = 0;
  bool is_quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (is_quoted) {
      if (c == '\\') ++i;
      if (c == '"') is_quoted = false;
    } else if (c == '"') {
      is_quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kJsonDepthMax) return false;
      members[depth] = 0;
      is_array[depth] = c == '[';
    } else if (c == ']' || c == '}') {
      if (depth > 0) --depth;
    } else if (c == ':') {
      if (++members[depth] > members_max || ++all > members_all_max) return false;
    } else if (c == ',' && is_array[depth]) {
      numbers += is_ascii_digit(last) ? 1 : kNumbersAnElement;
      if (numbers >= numbers_max) return false;
    }
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') last = c;
  }
  return true;
}

}  // namespace

bool has_readable_shape(std::string_view json) {
  return stays_within(json, kJsonMembersMax, kJsonMembersAllMax,
                      kNumbersAnElement * kJsonElementsAllMax);
}

bool has_readable_depth(std::string_view json) {
  constexpr auto kAny = std::numeric_limits<std::size_t>::max();
  return stays_within(json, kAny, kAny, kAny);
}

std::size_t json_text_bytes(std::string_view json) {
  std::size_t bytes = 0;
  bool is_quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '"') {
      is_quoted = !is_quoted;
    } else if (is_quoted) {
      ++bytes;
      if (json[i] == '\\' && ++i < json.size() && json[i] == 'u') i += 4;
    }
  }
  return bytes;
}

}  // namespace edgedraft
