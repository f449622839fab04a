#include "client/privacy/private_marks.h"

#include <algorithm>

namespace edgedraft {
namespace {

constexpr std::string_view kOpen = "<private>";
constexpr std::string_view kClose = "</private>";
// For marks within private text, each of which repeats what those within it mark.
constexpr std::size_t kDepthMax = 8;

struct Mark {
  std::size_t begin = std::string_view::npos;
  std::size_t end = std::string_view::npos;
  bool opens = false;

  bool found() const { return begin != std::string_view::npos; }
};

// Whatever the case of its letters. Requires  `mark` is in lower case
bool begins_with_mark(std::string_view text, std::string_view mark) {
  const auto same = [](char c, char lower) {
    return c == lower || (c >= 'A' && c <= 'Z' && c - 'A' + 'a' == lower);
  };
  return text.size() >= mark.size() && std::ranges::equal(text.substr(0, mark.size()), mark, same);
}

// The first mark from `at` on.
Mark next_mark(std::string_view text, std::size_t at) {
  for (at = text.find('<', at); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const std::string_view rest = text.substr(at);
    if (begins_with_mark(rest, kOpen)) {
      return {.begin = at, .end = at + kOpen.size(), .opens = true};
    }
    if (begins_with_mark(rest, kClose)) return {.begin = at, .end = at + kClose.size()};
  }
  return {};
}

// Where the private text ends that begins at `begin`: its last closing mark, or the text's end.
// What stands between two marks is read three times at most, however many there are.
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
    const Mark first = next_mark(text, at);
    // A mark that closes what none opened has all before it to close.
    const bool closes_all = first.found() && !first.opens;
    const std::size_t open_end = closes_all ? at : std::min(first.begin, text.size());
    if (open_end > at) parts.push_back({.text = std::string(text.substr(at, open_end - at))});
    if (!first.found()) break;
    const std::size_t begin = closes_all ? at : first.end;
    const Mark end = end_of(text, begin);
    parts.push_back(
        {.text = std::string(text.substr(begin, end.begin - begin)), .is_private = true});
    at = end.end;
  }
  return parts;
}

UnmarkedText without_marks(std::string_view private_text) {
  UnmarkedText unmarked;
  std::vector<std::size_t> begins;  // of marks that are open
  std::size_t too_deep = 0;         // open marks that do not count
  std::size_t closed_end = 0;       // of what a mark closed that none had opened
  const auto add = [&unmarked](std::size_t begin) {
    unmarked.marked.push_back(
        {.begin = begin, .end = unmarked.text.size(), .type = PrivateType::text});
  };
  std::size_t at = 0;
  for (Mark mark = next_mark(private_text, 0); mark.found();
       mark = next_mark(private_text, mark.end)) {
    unmarked.text += private_text.substr(at, mark.begin - at);
    at = mark.end;
    if (mark.opens && begins.size() == kDepthMax) {
      ++too_deep;
    } else if (mark.opens) {
      begins.push_back(unmarked.text.size());
    } else if (too_deep > 0) {
      --too_deep;
    } else if (!begins.empty()) {
      add(begins.back());
      begins.pop_back();
    } else {
      add(closed_end);
      closed_end = unmarked.text.size();
    }
  }
  unmarked.text += private_text.substr(at);
  for (const std::size_t begin : begins) add(begin);
  return unmarked;
}

}  // namespace edgedraft
