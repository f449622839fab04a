#pragma once

#include <cstddef>
#include <string_view>

namespace edgedraft {

// No real request nests deeper or has larger objects. Tree readers of JSON recurse once per level
// and compare each new member with all others of its object.
inline constexpr std::size_t kJsonDepthMax = 256;
inline constexpr std::size_t kJsonMembersMax = 4096;       // per object
inline constexpr std::size_t kJsonMembersAllMax = 65'536;  // in the whole document
// Array elements in the whole document. Four numbers count as one: token ids come in large arrays.
inline constexpr std::size_t kJsonElementsAllMax = 65'536;

// True if untrusted JSON stays within these limits, judged by brackets, colons and commas alone;
// its reader rejects malformed JSON. Linear time, no allocation.
bool has_readable_shape(std::string_view json);
// As above, but checks kJsonDepthMax only: a vocabulary has many members and elements.
bool has_readable_depth(std::string_view json);

// Total bytes of all strings; an escape counts as one. Linear time, no allocation.
std::size_t json_text_bytes(std::string_view json);

}  // namespace edgedraft
