#include "client/privacy/private_marks.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "client/privacy/unescaped_text.h"
#include "shared/base/ascii.h"

namespace edgedraft::client {
namespace {

constexpr std::string_view kName = "private";
// Bytes from a mark's name to its end; beyond it, the mark ends with its name.
constexpr std::size_t kAttributeBytesMax = 256;
// Depth of marks within private text, each of which repeats the text of those inside it.
constexpr std::size_t kDepthMax = 8;

struct Mark {
  std::size_t begin;
  std::size_t end;
  bool opens;
};

// ASCII form of a character, lower case: ' ' for all blanks, 0 if there is none.
struct Sign {
  char sign = 0;
  std::size_t end = 0;  // position after the character
};

// Returns the first visible character at or after `at`.
Sign sign_at(std::string_view text, std::size_t at) {
  constexpr auto kFolding = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT |
                                                           UTF8PROC_CASEFOLD | UTF8PROC_IGNORE);
  const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  while (at < text.size()) {
    const auto first = static_cast<unsigned char>(text[at]);
    if (first <= ' ') return {.sign = ' ', .end = at + 1};
    if (first < 0x80) {
      const bool is_capital = first >= 'A' && first <= 'Z';
      return {.sign = static_cast<char>(is_capital ? first + 0x20 : first), .end = at + 1};
    }
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t size =
        utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    if (size <= 0) return {.sign = 0, .end = at + 1};
    at += static_cast<std::size_t>(size);
    std::array<utf8proc_int32_t, 32> parts{};
    int last_class = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(code, parts.data(), parts.size(), kFolding, &last_class);
    if (count == 0) continue;
    if (count == 1 && parts[0] < 0x80) return {.sign = static_cast<char>(parts[0]), .end = at};
    const utf8proc_category_t category = utf8proc_category(code);
    const bool is_blank = category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP;
    return {.sign = is_blank ? ' ' : '\0', .end = at};
  }
  return {.sign = '>', .end = at};
}

Sign behind_blanks(std::string_view text, std::size_t at) {
  Sign sign = sign_at(text, at);
  while (sign.sign == ' ') sign = sign_at(text, sign.end);
  return sign;
}

// Returns the position after the mark whose name ends at `name_end`; 0: another name, or no mark.
std::size_t mark_end(std::string_view text, std::size_t name_end, char close) {
  Sign sign = sign_at(text, name_end);
  const bool goes_on = is_ascii_letter(sign.sign) || is_ascii_digit(sign.sign) || sign.sign == 0 ||
                       sign.sign == '-' || sign.sign == '_' || sign.sign == ':' || sign.sign == '.';
  if (goes_on) return 0;
  if (close == ']') {
    sign = behind_blanks(text, name_end);
    if (sign.sign == '/') sign = behind_blanks(text, sign.end);
    return sign.sign == close ? sign.end : 0;
  }
  while (sign.sign != close && sign.sign != '<' && sign.end < name_end + kAttributeBytesMax) {
    sign = sign_at(text, sign.end);
  }
  return sign.sign == close ? sign.end : name_end;
}

// Returns the mark at `at`, if there is one.
std::optional<Mark> mark_at(std::string_view text, std::size_t at) {
  Sign sign = sign_at(text, at);
  if (sign.sign != '<' && sign.sign != '[') return std::nullopt;
  const char close = sign.sign == '<' ? '>' : ']';
  sign = behind_blanks(text, sign.end);
  const bool opens = sign.sign != '/';
  if (!opens) sign = behind_blanks(text, sign.end);
  std::size_t name_end = 0;
  for (const char letter : kName) {
    if (sign.sign != letter) return std::nullopt;
    name_end = sign.end;
    sign = sign_at(text, name_end);
  }
  const std::size_t end = mark_end(text, name_end, close);
  if (end == 0) return std::nullopt;
  return Mark{.begin = at, .end = end, .opens = opens};
}

// Returns the marks in the text without decoding escapes.
std::vector<Mark> written_marks(std::string_view text) {
  constexpr std::string_view kFirst = "<[\xEF";
  // First bytes of wide and small brackets.
  constexpr std::string_view kWide[] = {"\xEF\xBC", "\xEF\xB9"};
  std::vector<Mark> marks;
  for (std::size_t at = text.find_first_of(kFirst); at != std::string_view::npos;) {
    const bool may_begin = text[at] != '\xEF' || std::ranges::count(kWide, text.substr(at, 2)) > 0;
    const auto mark = may_begin ? mark_at(text, at) : std::nullopt;
    if (mark) marks.push_back(*mark);
    at = text.find_first_of(kFirst, mark ? mark->end : at + 1);
  }
  return marks;
}

// Returns all marks from left to right, including escaped ones.
std::vector<Mark> marks_in(std::string_view text) {
  std::vector<Mark> marks = written_marks(text);
  for (const UnescapedText& reading : unescaped_texts(text)) {
    for (const Mark& mark : written_marks(reading.text)) {
      marks.push_back({.begin = reading.begins[mark.begin],
                       .end = reading.ends[mark.end - 1],
                       .opens = mark.opens});
    }
  }
  std::ranges::sort(marks, {}, &Mark::begin);
  std::vector<Mark> joined;
  for (const Mark& mark : marks) {
    if (joined.empty() || mark.begin >= joined.back().end) {
      joined.push_back(mark);
    } else {
      joined.back().end = std::max(joined.back().end, mark.end);
      joined.back().opens = joined.back().opens || mark.opens;
    }
  }
  return joined;
}

// Returns the index of the last closing mark that ends the private text before marks[first].
// Returns the number of marks if that text extends to the end.
std::size_t end_of(std::span<const Mark> marks, std::size_t first) {
  std::size_t depth = 1;
  for (std::size_t i = first; i < marks.size(); ++i) {
    if (marks[i].opens) {
      ++depth;
    } else if (depth > 1) {
      --depth;
    } else if (i + 1 == marks.size() || marks[i + 1].opens) {
      return i;
    }
  }
  return marks.size();
}

}  // namespace

std::vector<MarkedPart> split_marks(std::string_view text) {
  const std::vector<Mark> marks = marks_in(text);
  std::vector<MarkedPart> parts;
  std::size_t at = 0;
  for (std::size_t i = 0; at < text.size();) {
    const bool is_last = i == marks.size();
    // A closing mark without an opening one closes all text before it.
    const bool closes_all = !is_last && !marks[i].opens;
    const std::size_t open_end = closes_all ? at : is_last ? text.size() : marks[i].begin;
    if (open_end > at) parts.push_back({.text = std::string(text.substr(at, open_end - at))});
    if (is_last) break;
    const std::size_t begin = closes_all ? at : marks[i].end;
    const std::size_t last = end_of(marks, closes_all ? i : i + 1);
    const bool is_closed = last < marks.size();
    const std::size_t end = is_closed ? marks[last].begin : text.size();
    parts.push_back({.text = std::string(text.substr(begin, end - begin)), .is_private = true});
    at = is_closed ? marks[last].end : text.size();
    i = last + 1;
  }
  return parts;
}

UnmarkedText without_marks(std::string_view private_text) {
  UnmarkedText unmarked;
  std::vector<std::size_t> begins;  // start of each open mark
  std::size_t too_deep = 0;         // open marks beyond the depth limit
  std::size_t closed_end = 0;       // end of text closed by a mark without an opening one
  const auto add = [&unmarked](std::size_t begin) {
    unmarked.marked.push_back(
        {.begin = begin, .end = unmarked.text.size(), .type = PrivateType::text});
  };
  std::size_t at = 0;
  for (const Mark& mark : marks_in(private_text)) {
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

}  // namespace edgedraft::client
