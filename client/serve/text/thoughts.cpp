#include "client/serve/text/thoughts.h"

#include <algorithm>

#include "client/serve/text/begun_mark.h"

namespace edgedraft::client {
namespace {

constexpr std::string_view kBegin = "<think>";
constexpr std::string_view kBlanks = " \t\r\n";

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(kBlanks, at), text.size());
}

std::size_t trimmed_end(std::string_view text, std::size_t begin, std::size_t end) {
  const std::size_t last = text.substr(begin, end - begin).find_last_not_of(kBlanks);
  return last == std::string_view::npos ? begin : begin + last + 1;
}

}  // namespace

SplitText split_thoughts(std::string_view text, Thoughts thoughts, bool whole) {
  std::size_t begin = skip_blanks(text, 0);
  const std::string_view front = text.substr(begin);
  if (front.starts_with(kBegin)) {
    begin = skip_blanks(text, begin + kBegin.size());
  } else if (thoughts == Thoughts::maybe) {
    const bool undecided = !whole && kBegin.starts_with(front);
    return {.decided_end = undecided ? 0 : text.size()};
  }
  const std::size_t mark = text.find(kThoughtEnd, begin);
  if (mark == std::string_view::npos) {
    const std::string_view thought = text.substr(begin);
    const std::size_t end = text.size() - (whole ? 0 : begun_mark(thought, kThoughtEnd));
    const std::size_t shown = trimmed_end(text, begin, end);
    return {.thought_begin = begin,
            .thought_end = shown,
            .answer_begin = text.size(),
            .decided_end = whole ? text.size() : shown};
  }
  const std::size_t answer = skip_blanks(text, mark + kThoughtEnd.size());
  return {.thought_begin = begin,
          .thought_end = trimmed_end(text, begin, mark),
          .answer_begin = answer,
          .decided_end = text.size()};
}

}  // namespace edgedraft::client
