#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace edgedraft::client {

// Returns the size of the longest proper prefix of `mark` at the end of the text.
// Requires  `mark` not empty
inline std::size_t begun_mark(std::string_view text, std::string_view mark) {
  std::size_t size = std::min(mark.size() - 1, text.size());
  while (!text.ends_with(mark.substr(0, size))) --size;
  return size;
}

}  // namespace edgedraft::client
