#include "client/privacy/private_marks.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>

#include "client/privacy/unescaped_text.h"
#include "shared/base/ascii.h"
#include "shared/model/utf8.h"

namespace edgedraft::client {
namespace {

constexpr std::string_view kName = "private";
// Bounds the letters compared with it.
constexpr std::size_t kComparedBytesMax = kName.size() + 2;
// Bytes from a mark's name to its end; beyond it, the mark ends with its name.
constexpr std::size_t kAttributeBytesMax = 256;
// Depth of marks within private text, each of which repeats the text of those inside it.
constexpr std::size_t kDepthMax = 8;

struct Mark {
  std::size_t begin;
  std::size_t end;
  bool opens;
  bool is_likely = true;  // false: a mark only if a similar one closes it
};

// Brackets that some people write instead of "<".
constexpr std::u32string_view kOpenBrackets = U"«‹〈❨❮❰⟦⟨⟪〈《【〔";
constexpr std::u32string_view kCloseBrackets = U"»›〉❩❯❱⟧⟩⟫〉》】〕";

// ASCII form of a character, lower case and without accents: ' ' for all blanks, '{' and '}' for
// brackets without one, 0 if there is none.
struct Sign {
  char sign = 0;
  std::size_t end = 0;  // position after the character
};

// Returns the first visible character at or after `at`.
Sign sign_at(std::string_view text, std::size_t at) {
  constexpr auto kFolding =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT | UTF8PROC_CASEFOLD |
                                     UTF8PROC_IGNORE | UTF8PROC_STRIPMARK);
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
    const auto character = static_cast<char32_t>(code);
    if (character == U'ı') return {.sign = 'i', .end = at};
    if (kOpenBrackets.find(character) != kOpenBrackets.npos) return {.sign = '{', .end = at};
    if (kCloseBrackets.find(character) != kCloseBrackets.npos) return {.sign = '}', .end = at};
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

// True if one typing error, such as a missing or swapped letter, leads from `name` to kName.
bool is_misspelt(std::string_view name) {
  const auto [ours, theirs] = std::ranges::mismatch(kName, name);
  const std::string_view left(ours, kName.end());
  const std::string_view right(theirs, name.end());
  const auto behind = [](std::string_view text, std::size_t count) {
    return text.substr(std::min(count, text.size()));
  };
  const bool is_swapped =
      left.size() > 1 && right.size() > 1 && left[0] == right[1] && left[1] == right[0];
  return behind(left, 1) == right || left == behind(right, 1) ||
         behind(left, 1) == behind(right, 1) || (is_swapped && behind(left, 2) == behind(right, 2));
}

bool continues_name(char sign) {
  return is_ascii_letter(sign) || is_ascii_digit(sign) || sign == 0 || sign == '-' || sign == '_' ||
         sign == ':' || sign == '.';
}

// Returns the position after the mark whose name ends at `name_end`; 0: it has no end.
std::size_t mark_end(std::string_view text, std::size_t name_end, char close) {
  if (close != '>') {
    Sign sign = behind_blanks(text, name_end);
    if (sign.sign == '/') sign = behind_blanks(text, sign.end);
    return sign.sign == close ? sign.end : 0;
  }
  Sign sign = sign_at(text, name_end);
  while (sign.sign != close && sign.sign != '<' && sign.end < name_end + kAttributeBytesMax) {
    sign = sign_at(text, sign.end);
  }
  return sign.sign == close ? sign.end : 0;
}

// Returns the sign after the start of a comment or a prefix, as in "<!-- private -->" and
// "<x_private>".
Sign behind_prefix(std::string_view text, Sign sign) {
  if (sign.sign == '!') {
    while (sign.sign == '!' || sign.sign == '-' || sign.sign == ' ') sign = sign_at(text, sign.end);
  }
  if (sign.sign != 'x') return sign;
  const Sign next = sign_at(text, sign.end);
  return next.sign == '_' || next.sign == '-' ? sign_at(text, next.end) : sign;
}

// Returns the mark at `at`, if there is one.
std::optional<Mark> mark_at(std::string_view text, std::size_t at) {
  constexpr std::string_view kOpen = "<[{(";
  constexpr std::string_view kClose = ">]})";
  Sign sign = sign_at(text, at);
  const std::size_t bracket = sign.sign == 0 ? kOpen.npos : kOpen.find(sign.sign);
  if (bracket == kOpen.npos) return std::nullopt;
  const char close = kClose[bracket];
  sign = behind_blanks(text, sign.end);
  const Sign first = sign;
  sign = behind_prefix(text, sign);
  bool is_likely = bracket < 2 && sign.end == first.end;
  const bool opens = sign.sign != '/';
  if (!opens) {
    sign = behind_blanks(text, sign.end);
    const Sign named = behind_prefix(text, sign);
    is_likely = is_likely && named.end == sign.end;
    sign = named;
  }
  std::string name;
  std::size_t name_end = 0;
  while (is_ascii_letter(sign.sign) && name.size() < kComparedBytesMax) {
    name += sign.sign;
    name_end = sign.end;
    sign = sign_at(text, name_end);
  }
  const bool is_longer = continues_name(sign.sign);
  const bool is_exact = name == kName && !is_longer;
  const bool is_similar = name.starts_with(kName) || (!is_longer && is_misspelt(name));
  if (!is_exact && !is_similar) return std::nullopt;
  std::size_t end = mark_end(text, name_end, close);
  is_likely = is_likely && is_exact;
  if (end == 0 && is_likely && close == '>') end = name_end;
  if (end == 0) return std::nullopt;
  return Mark{.begin = at, .end = end, .opens = opens, .is_likely = is_likely};
}

// True if a bracket is at `at`. Invisible characters may follow it, but not precede it: each would
// be read again from every one before it.
bool is_bracket(std::string_view text, std::size_t at) {
  constexpr std::u32string_view kWide = U"＜﹤［｛﹛（﹙";
  if (static_cast<unsigned char>(text[at]) < 0x80) return true;
  text.remove_prefix(at);
  if (utf8_front(text).kind != Utf8Front::Kind::character) return false;
  const char32_t character = utf8_code_point(text);
  return kWide.find(character) != kWide.npos || kOpenBrackets.find(character) != kOpenBrackets.npos;
}

// Returns the marks in the text without decoding escapes.
std::vector<Mark> written_marks(std::string_view text) {
  // Brackets, and first bytes of those outside ASCII.
  constexpr std::string_view kFirst = "<[{(\xC2\xE2\xE3\xEF";
  std::vector<Mark> marks;
  for (std::size_t at = text.find_first_of(kFirst); at != std::string_view::npos;) {
    const auto mark = is_bracket(text, at) ? mark_at(text, at) : std::nullopt;
    if (mark) marks.push_back(*mark);
    at = text.find_first_of(kFirst, mark ? mark->end : at + 1);
  }
  return marks;
}

// Removes the unlikely marks unless one closes another: "{private}" alone is ordinary text.
void remove_unpaired(std::vector<Mark>& marks) {
  const auto is_unlikely = [](const Mark& mark) { return !mark.is_likely; };
  const auto opening =
      std::ranges::find_if(marks, [](const Mark& mark) { return !mark.is_likely && mark.opens; });
  const bool is_paired = std::any_of(
      opening, marks.end(), [](const Mark& mark) { return !mark.is_likely && !mark.opens; });
  if (!is_paired) std::erase_if(marks, is_unlikely);
}

// Returns all marks from left to right, including escaped ones.
std::vector<Mark> marks_in(std::string_view text) {
  std::vector<Mark> marks = written_marks(text);
  for (const UnescapedText& reading : unescaped_texts(text)) {
    for (const Mark& mark : written_marks(reading.text)) {
      marks.push_back({.begin = reading.begins[mark.begin],
                       .end = reading.ends[mark.end - 1],
                       .opens = mark.opens,
                       .is_likely = mark.is_likely});
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
      joined.back().is_likely = joined.back().is_likely || mark.is_likely;
    }
  }
  remove_unpaired(joined);
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
