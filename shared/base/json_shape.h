#pragma once

#include <cstddef>
#include <string_view>

namespace edgedraft {

// Deeper or wider JSON is nobody's request. What reads it as a tree descends by recursion, and
// looks through an object's members for each that it adds.
inline constexpr std::size_t kJsonDepthMax = 256;
inline constexpr std::size_t kJsonMembersMax = 4096;       // of one object
inline constexpr std::size_t kJsonMembersAllMax = 65'536;  // of all objects within

// Whether JSON from elsewhere stays within these limits, by its brackets and colons alone; what is
// no JSON is for its reader to refuse. Linear, without memory of its own.
bool has_readable_shape(std::string_view json);

}  // namespace edgedraft
