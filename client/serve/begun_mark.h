#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace edgedraft {

// Bytes at the text's end that may be the beginning of `mark`: the longest, of those that are not
// all of it. Requires  a mark that is not empty
inline std::size_t begun_mark(std::string_view text, std::string_view mark) {
  std::size_t size = std::min(mark.size() - 1, text.size());
  while (!text.ends_with(mark.substr(0, size))) --size;
  return size;
}

}  // namespace edgedraft
