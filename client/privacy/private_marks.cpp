#include "client/privacy/private_marks.h"

#include <algorithm>

namespace edgedraft {
namespace {

constexpr std::string_view kOpen = "<private>";
constexpr std::string_view kClose = "</private>";

struct Mark {
  std::size_t begin = std::string_view::npos;
  std::size_t end = std::string_view::npos;
  bool opens = false;

  bool found() const { return begin != std::string_view::npos; }
};

Mark next_mark(std::string_view text, std::size_t at) {
  const std::size_t open = text.find(kOpen, at);
  const std::size_t close = text.find(kClose, at);
  if (open < close) return {.begin = open, .end = open + kOpen.size(), .opens = true};
  if (close == std::string_view::npos) return {};
  return {.begin = close, .end = close + kClose.size()};
}

// Where the private text ends that begins at `begin`: its last closing mark, or the text's end.
Mark end_of(std::string_view text, std::size_t begin) {
  std::size_t depth = 1;
  for (Mark mark = next_mark(text, begin); mark.found(); mark = next_mark(text, mark.end)) {
    if (mark.opens) {
      ++depth;
    } else if (depth > 1) {
      --depth;
    } else if (const Mark next = next_mark(text, mark.end); !next.found() || next.opens) {
      return mark;
    }
  }
  return {.begin = text.size(), .end = text.size()};
}

}  // namespace

std::vector<MarkedPart> split_marks(std::string_view text) {
  std::vector<MarkedPart> parts;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t open = std::min(text.find(kOpen, at), text.size());
    if (open > at) parts.push_back({.text = std::string(text.substr(at, open - at))});
    if (open == text.size()) break;
    const std::size_t begin = open + kOpen.size();
    const Mark end = end_of(text, begin);
    parts.push_back(
        {.text = std::string(text.substr(begin, end.begin - begin)), .is_private = true});
    at = end.end;
  }
  return parts;
}

}  // namespace edgedraft
