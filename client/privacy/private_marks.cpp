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

// The marks of a text from left to right. Each byte is looked at once, however many marks there
// are.
class Marks {
 public:
  Marks(std::string_view text, std::size_t at)
      : text_(text), open_(text.find(kOpen, at)), close_(text.find(kClose, at)) {}

  // The first from `at` on, which must not be before that of the last call.
  Mark next(std::size_t at) {
    if (open_ < at) open_ = text_.find(kOpen, at);
    if (close_ < at) close_ = text_.find(kClose, at);
    if (open_ < close_) return {.begin = open_, .end = open_ + kOpen.size(), .opens = true};
    if (close_ == std::string_view::npos) return {};
    return {.begin = close_, .end = close_ + kClose.size()};
  }

 private:
  std::string_view text_;
  std::size_t open_;
  std::size_t close_;
};

// Where the private text ends that begins at `begin`: its last closing mark, or the text's end.
Mark end_of(std::string_view text, std::size_t begin) {
  Marks marks(text, begin);
  std::size_t depth = 1;
  for (Mark mark = marks.next(begin); mark.found(); mark = marks.next(mark.end)) {
    if (mark.opens) {
      ++depth;
    } else if (depth > 1) {
      --depth;
    } else if (const Mark next = marks.next(mark.end); !next.found() || next.opens) {
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
