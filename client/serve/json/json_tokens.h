#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace edgedraft::client {

// A string or number of JSON and its bytes [begin, end), including quotation marks.
struct JsonToken {
  enum class Kind : std::uint8_t { key, text, number };
  Kind kind;
  std::size_t begin;
  std::size_t end;
  bool operator==(const JsonToken&) const = default;
};

// Returns the tokens from left to right. Requires  valid JSON
std::vector<JsonToken> json_tokens(std::string_view json);

}  // namespace edgedraft::client
