#include "shared/base/json_shape.h"

#include <array>
#include <cstddef>

namespace edgedraft {

bool has_readable_shape(std::string_view json) {
  std::array<std::size_t, kJsonDepthMax + 1> members{};  // of the object that is open at each depth
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
    } else if (c == ']' || c == '}') {
      if (depth > 0) --depth;
    } else if (c == ':') {
      if (++members[depth] > kJsonMembersMax || ++all > kJsonMembersAllMax) return false;
    }
  }
  return true;
}

}  // namespace edgedraft
