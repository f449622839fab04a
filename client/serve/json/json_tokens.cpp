#include "client/serve/json/json_tokens.h"

#include <algorithm>

namespace edgedraft::client {
namespace {

// Returns the position after the closing quotation mark of the string at `begin`.
std::size_t text_end(std::string_view json, std::size_t begin) {
  std::size_t at = begin + 1;
  while (at < json.size() && json[at] != '"') at += json[at] == '\\' ? 2 : 1;
  return std::min(at + 1, json.size());
}

bool is_key(std::string_view json, std::size_t end) {
  const std::size_t next = json.find_first_not_of(" \t\r\n", end);
  return next != std::string_view::npos && json[next] == ':';
}

}  // namespace

std::vector<JsonToken> json_tokens(std::string_view json) {
  using Kind = JsonToken::Kind;
  std::vector<JsonToken> tokens;
  for (std::size_t at = 0; at < json.size();) {
    const char c = json[at];
    if (c == '"') {
      const std::size_t end = text_end(json, at);
      tokens.push_back(
          {.kind = is_key(json, end) ? Kind::key : Kind::text, .begin = at, .end = end});
      at = end;
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      const std::size_t end = std::min(json.find_first_not_of("+-.eE0123456789", at), json.size());
      tokens.push_back({.kind = Kind::number, .begin = at, .end = end});
      at = end;
    } else {
      ++at;
    }
  }
  return tokens;
}

}  // namespace edgedraft::client
