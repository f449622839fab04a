#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/privacy/private_span.h"

namespace edgedraft {

// A text with its escapes read, such as "\u00fc", "&uuml;" and "%20". Programs write JSON,
// literals, HTML and addresses so.
struct UnescapedText {
  std::string text;
  // The bytes of the text as it is written that each byte stands for.
  std::vector<std::uint32_t> begins;
  std::vector<std::uint32_t> ends;

  // Adds bytes that bytes [begin, end) of the text as it is written stand for.
  void append(std::string_view bytes, std::size_t begin, std::size_t end) {
    text += bytes;
    begins.insert(begins.end(), bytes.size(), static_cast<std::uint32_t>(begin));
    ends.insert(ends.end(), bytes.size(), static_cast<std::uint32_t>(end));
  }
  // The bytes, as they are written, that a span of `text` stands for. Requires  span not empty
  PrivateSpan as_written(const PrivateSpan& span) const {
    return {.begin = begins[span.begin], .end = ends[span.end - 1], .type = span.type};
  }
};

// The text with its backslash escapes read once, twice if that leaves escapes (JSON within a string
// of JSON), and so on, a few times at most. Then the same with entities and percent escapes, whose
// bytes may be no UTF-8. Nothing if it has none. What is no escape stands for itself.
std::vector<UnescapedText> unescaped_texts(std::string_view text);

}  // namespace edgedraft
