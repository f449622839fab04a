#pragma once

#include <cstddef>
#include <string_view>

namespace edgedraft {

// No real request nests deeper or has larger objects. Code that reads JSON as a tree recurses once
// per level, and compares each new member with those that its object already has.
inline constexpr std::size_t kJsonDepthMax = 256;
inline constexpr std::size_t kJsonMembersMax = 4096;       // of one object
inline constexpr std::size_t kJsonMembersAllMax = 65'536;  // of all objects within
// Elements of all arrays within. Four numbers count as one element: token ids come in large arrays.
inline constexpr std::size_t kJsonElementsAllMax = 65'536;

// Whether JSON from elsewhere stays within these limits, by its brackets, colons and commas alone;
// what is no JSON is for its reader to refuse. Linear, without memory of its own.
bool has_readable_shape(std::string_view json);
// Whether it stays within kJsonDepthMax, however many members and elements it has, as a vocabulary
// does.
bool has_readable_depth(std::string_view json);

// Bytes of all its strings, where an escape counts as one. Linear, without memory of its own.
std::size_t json_text_bytes(std::string_view json);

}  // namespace edgedraft
