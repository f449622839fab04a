#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace edgedraft {

// A text or a number of JSON where it is written: bytes [begin, end), a text's quotation marks
// among them.
struct JsonToken {
  enum class Kind : std::uint8_t { key, text, number };
  Kind kind;
  std::size_t begin;
  std::size_t end;
  bool operator==(const JsonToken&) const = default;
};

// Those of JSON from left to right. Requires  it is JSON
std::vector<JsonToken> json_tokens(std::string_view json);

}  // namespace edgedraft
