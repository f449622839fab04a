#include "client/privacy/private_vault.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "client/privacy/unescaped_text.h"

namespace edgedraft {
namespace {

constexpr std::size_t kKeyCharacters = 3;
// Shorter ones are found as words alone.
constexpr std::size_t kShort = 6;
// Numbers of fewer are found in too much if their groups do not count.
constexpr std::size_t kGroupedDigitsMin = 6;
// Fewer signs of ASCII, without a letter or digit among them, are found in all text.
constexpr std::size_t kSignsMin = 3;
// Between two letters or digits of a number that is written in groups.
constexpr std::size_t kSeparatorBytesMax = 4;

std::uint64_t key_of(std::u32string_view text) {
  std::uint64_t key = 0;
  for (const char32_t character : text.substr(0, kKeyCharacters)) key = key << 21 | character;
  return key;
}

// Letters of Hangul, of which folding makes syllables.
bool is_hangul(char32_t character) {
  return character >= 0x1100 && character <= 0x11FF;
}

// Whether both may be of one word: letters or digits with nothing in between, of scripts that put
// spaces between words. Behind a syllable of Hangul a particle may stand.
bool joined(const FoldedText& text, std::size_t left, std::size_t right) {
  const auto joins = [](char32_t character) {
    return is_letter_or_digit(character) && !is_unspaced(character);
  };
  const bool is_at_syllable = (is_hangul(text.text[left]) || is_hangul(text.text[right])) &&
                              text.begins[left] != text.begins[right];
  return joins(text.text[left]) && joins(text.text[right]) && !is_at_syllable &&
         text.ends[left] >= text.begins[right];
}

bool stands_alone(const FoldedText& text, std::size_t begin, std::size_t end) {
  return (begin == 0 || !joined(text, begin - 1, begin)) &&
         (end == text.text.size() || !joined(text, end - 1, end));
}

bool holds_together(const FoldedText& text, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin + 1; i < end; ++i) {
    if (text.begins[i] > text.ends[i - 1] + kSeparatorBytesMax) return false;
  }
  return true;
}

std::u32string trimmed(std::u32string text) {
  while (!text.empty() && text.back() == U' ') text.pop_back();
  if (!text.empty() && text.front() == U' ') text.erase(0, 1);
  return text;
}

// Line breaks and the like around it.
std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\b\f";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// Whether a value without letters and digits can be told from ordinary text.
bool is_kept_by_signs(std::u32string_view written) {
  return written.size() >= kSignsMin ||
         std::ranges::any_of(written, [](char32_t sign) { return sign >= 0x80; });
}

// Digits, and whatever separates them.
bool is_number(std::u32string_view compacted) {
  return compacted.size() >= kGroupedDigitsMin && std::ranges::all_of(compacted, is_decimal_digit);
}

}  // namespace

std::u32string canonical_value(std::string_view value, PrivateType type) {
  FoldedText folded = fold(value);
  if (!is_grouped(type)) return trimmed(std::move(folded.text));
  std::u32string compacted = compact(folded).text;
  return compacted.empty() ? trimmed(std::move(folded.text)) : compacted;
}

void PrivateVault::Forms::add(std::u32string text, PrivateType type) {
  known.insert(text);
  by_beginning[key_of(text)].push_back(static_cast<std::uint32_t>(all.size()));
  all.push_back({.text = std::move(text), .type = type});
}

bool PrivateVault::add_to(Values& values, bool has_room, std::string_view value, PrivateType type,
                          Finding finding) {
  FoldedText folded = fold(value);
  std::u32string compacted = compact(folded).text;
  std::u32string written = trimmed(std::move(folded.text));
  const bool has_letters = !compacted.empty();
  if (!has_letters && !is_kept_by_signs(written)) return true;
  const auto known = [&](Forms Values::*forms, const std::u32string& text) {
    return (values.*forms).known.contains(text) || (names_.*forms).known.contains(text) ||
           (given_.*forms).known.contains(text);
  };
  const bool is_written = (!is_grouped(type) || !has_letters || finding.as_written) &&
                          !known(&Values::written, written);
  const bool is_compacted = has_letters &&
                            (is_grouped(type) || finding.grouped || is_number(compacted)) &&
                            !known(&Values::compacted, compacted);
  if (!is_written && !is_compacted) return true;
  if (!has_room) return false;
  ++values.count;
  if (is_written) values.written.add(std::move(written), type);
  if (is_compacted) values.compacted.add(std::move(compacted), type);
  return true;
}

bool PrivateVault::add(std::string_view value, PrivateType type, bool grouped) {
  return add_to(given_, given_.count + detected_.count < kValuesMax, value, type,
                {.grouped = grouped});
}

bool PrivateVault::add_detected(std::string_view value, PrivateType type, bool as_written) {
  return add_to(detected_, given_.count + detected_.count < kValuesMax, value, type,
                {.as_written = as_written});
}

bool PrivateVault::add_name(std::string_view name) {
  return add_to(names_, names_.count < kNamesMax, name, PrivateType::name, {});
}

void PrivateVault::add_all(const PrivateVault& copy) {
  const auto take = [this](Values& values, const Values& from) {
    for (const auto forms : {&Values::written, &Values::compacted}) {
      for (const Form& form : (from.*forms).all) {
        const auto knows = [&](const Values& any) {
          return (any.*forms).known.contains(form.text);
        };
        if (knows(given_) || knows(detected_) || knows(names_)) continue;
        (values.*forms).add(form.text, form.type);
        ++values.count;
      }
    }
  };
  take(given_, copy.given_);
  if (given_.count + detected_.count + copy.detected_.count > kValuesMax) forget_detected();
  take(detected_, copy.detected_);
}

void PrivateVault::find_in(const FoldedText& text, const Forms& forms, bool grouped,
                           std::vector<PrivateSpan>& found) const {
  const std::u32string_view all = text.text;
  for (std::size_t at = 0; at < all.size(); ++at) {
    std::size_t longest = 0;
    PrivateType type{};
    for (std::size_t size = 1; size <= std::min(kKeyCharacters, all.size() - at); ++size) {
      const auto candidates = forms.by_beginning.find(key_of(all.substr(at, size)));
      if (candidates == forms.by_beginning.end()) continue;
      for (const std::uint32_t number : candidates->second) {
        const Form& form = forms.all[number];
        const std::size_t end = at + form.text.size();
        if (form.text.size() <= longest || !all.substr(at).starts_with(form.text)) continue;
        if (grouped && !holds_together(text, at, end)) continue;
        if ((grouped || form.text.size() < kShort) && !stands_alone(text, at, end)) continue;
        longest = form.text.size();
        type = form.type;
      }
    }
    if (longest == 0) continue;
    found.push_back({.begin = text.begins[at], .end = text.ends[at + longest - 1], .type = type});
  }
}

std::vector<PrivateSpan> PrivateVault::find_literally(std::string_view text) const {
  std::vector<PrivateSpan> found;
  if (!has_values()) return found;
  const std::array all{&given_, &detected_, &names_};
  const FoldedText folded = fold(text);
  const FoldedText compacted = compact(folded);
  for (const Values* values : all) {
    if (!values->written.all.empty()) find_in(folded, values->written, /*grouped=*/false, found);
    if (!values->compacted.all.empty()) {
      find_in(compacted, values->compacted, /*grouped=*/true, found);
    }
  }
  join_overlapping(found);
  return found;
}

std::vector<PrivateSpan> PrivateVault::find(std::string_view text) const {
  std::vector<PrivateSpan> found = find_literally(text);
  if (!has_values()) return found;
  for (const UnescapedText& reading : unescaped_texts(text)) {
    for (const PrivateSpan& span : find_literally(reading.text)) {
      found.push_back(reading.as_written(span));
    }
  }
  join_overlapping(found);
  return found;
}

std::optional<PrivateVault::Known> PrivateVault::known_as(std::string_view value) const {
  const auto whole_type = [this](std::string_view text) -> std::optional<PrivateType> {
    const auto found = find_literally(text);
    const bool whole = found.size() == 1 && found[0].begin == 0 && found[0].end == text.size();
    return whole ? std::optional(found[0].type) : std::nullopt;
  };
  if (const auto type = whole_type(value)) return Known{.text = std::string(value), .type = *type};
  if (!has_values()) return std::nullopt;
  for (const UnescapedText& reading : unescaped_texts(value)) {
    const std::string_view text = without_blanks(reading.text);
    if (const auto type = whole_type(text)) return Known{.text = std::string(text), .type = *type};
  }
  return std::nullopt;
}

bool PrivateVault::knows_compacted(const std::u32string& text) const {
  return given_.compacted.known.contains(text) || detected_.compacted.known.contains(text) ||
         names_.compacted.known.contains(text);
}

std::u32string PrivateVault::identity_of(std::string_view value, PrivateType type) const {
  std::u32string compacted = compact(fold(value)).text;
  return knows_compacted(compacted) ? compacted : canonical_value(value, type);
}

void join_overlapping(std::vector<PrivateSpan>& spans) {
  // One without a byte stays one of its own where another begins.
  std::ranges::sort(spans, [](const PrivateSpan& a, const PrivateSpan& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::vector<PrivateSpan> joined;
  std::size_t longest = 0;
  for (const PrivateSpan& span : spans) {
    const std::size_t size = span.end - span.begin;
    if (joined.empty() || span.begin >= joined.back().end) {
      joined.push_back(span);
      longest = size;
      continue;
    }
    joined.back().end = std::max(joined.back().end, span.end);
    const bool says_more = size == longest && joined.back().type == PrivateType::text;
    if (size <= longest && !says_more) continue;
    joined.back().type = span.type;
    longest = size;
  }
  spans = std::move(joined);
}

bool is_covered_by(std::span<const PrivateSpan> spans, const PrivateSpan& span) {
  const auto behind = std::ranges::upper_bound(spans, span.begin, {}, &PrivateSpan::begin);
  return behind != spans.begin() && std::prev(behind)->end >= span.end;
}

}  // namespace edgedraft
