#include "client/text/thoughts.h"

#include <algorithm>
#include <optional>

#include "client/text/begun_mark.h"

namespace edgedraft::client {
namespace {

constexpr std::string_view kBegin = "<think>";
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kMessageEnd = "<|end|>";
constexpr std::string_view kBlanks = " \t\r\n";

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(kBlanks, at), text.size());
}

std::size_t trimmed_end(std::string_view text, std::size_t begin, std::size_t end) {
  const std::size_t last = text.substr(begin, end - begin).find_last_not_of(kBlanks);
  return last == std::string_view::npos ? begin : begin + last + 1;
}

// Position after the header "<|channel|>NAME...<|message|>" at or after `at`, and whether the
// channel is the answer's; empty if the header is not there or not complete.
struct Header {
  std::size_t end;
  bool is_answers;
};
std::optional<Header> find_header(std::string_view text, std::size_t at) {
  const std::size_t channel = text.find(kChannel, at);
  if (channel == std::string_view::npos) return std::nullopt;
  const std::size_t name = channel + kChannel.size();
  const std::size_t message = text.find(kMessage, name);
  if (message == std::string_view::npos) return std::nullopt;
  return Header{.end = message + kMessage.size(),
                .is_answers = text.substr(name, message - name).starts_with("final")};
}

// `text` begins with a channel. Messages before the answer are one thought.
SplitText split_channels(std::string_view text, bool whole) {
  auto header = find_header(text, 0);
  if (!header) return {.answer_begin = text.size(), .decided_end = whole ? text.size() : 0};
  if (header->is_answers) return {.answer_begin = header->end, .decided_end = text.size()};
  SplitText split{.thought_begin = header->end};
  for (;;) {
    const std::size_t mark = text.find(kMessageEnd, header->end);
    const bool ended = mark != std::string_view::npos;
    const std::size_t end =
        ended ? mark
              : text.size() - (whole ? 0 : begun_mark(text.substr(header->end), kMessageEnd));
    split.thought_end = trimmed_end(text, split.thought_begin, end);
    if (ended) header = find_header(text, mark);
    if (!ended || !header) {
      split.answer_begin = text.size();
      split.decided_end = whole ? text.size() : split.thought_end;
      return split;
    }
    if (header->is_answers) {
      split.answer_begin = header->end;
      split.decided_end = text.size();
      return split;
    }
  }
}

}  // namespace

SplitText split_thoughts(std::string_view text, Thoughts thoughts, bool whole) {
  std::size_t begin = skip_blanks(text, 0);
  const std::string_view front = text.substr(begin);
  if (front.starts_with(kBegin)) {
    begin = skip_blanks(text, begin + kBegin.size());
  } else if (text.starts_with(kChannel)) {
    return split_channels(text, whole);
  } else if (thoughts == Thoughts::maybe) {
    const bool undecided = !whole && (kBegin.starts_with(front) || kChannel.starts_with(text));
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

std::string_view content_of(std::string_view text) {
  if (!text.starts_with(kChannel)) return text;
  return text.substr(split_channels(text, /*whole=*/true).answer_begin);
}

}  // namespace edgedraft::client
