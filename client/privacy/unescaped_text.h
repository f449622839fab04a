#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/privacy/private_span.h"

namespace edgedraft::client {

// A text with its escapes decoded, such as "\u00fc", "&uuml;" and "%20" in JSON, literals, HTML and
// addresses.
struct UnescapedText {
  std::string text;
  // Bytes of the original per decoded byte.
  std::vector<std::uint32_t> begins;
  std::vector<std::uint32_t> ends;

  // Appends decoded bytes of the original's [begin, end).
  void append(std::string_view bytes, std::size_t begin, std::size_t end) {
    text += bytes;
    begins.insert(begins.end(), bytes.size(), static_cast<std::uint32_t>(begin));
    ends.insert(ends.end(), bytes.size(), static_cast<std::uint32_t>(end));
  }
  // Maps a span of `text` to the original. Requires  span not empty
  PrivateSpan as_written(const PrivateSpan& span) const {
    return {.begin = begins[span.begin], .end = ends[span.end - 1], .type = span.type};
  }
};

// Returns the text with backslash escapes decoded once, twice if escapes remain (JSON within a JSON
// string), and so on, up to a limit. Then the same with entities and percent escapes, whose bytes
// may be invalid UTF-8. Empty if the text has no escapes. Everything else stays unchanged.
std::vector<UnescapedText> unescaped_texts(std::string_view text);

}  // namespace edgedraft::client
