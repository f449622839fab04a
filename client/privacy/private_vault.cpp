#include "client/privacy/private_vault.h"

#include <algorithm>

namespace edgedraft {
namespace {

constexpr std::size_t kKeyCharacters = 3;
// Shorter ones are found as words alone.
constexpr std::size_t kShort = 6;
// Between two letters or digits of a number that is written in groups.
constexpr std::size_t kSeparatorBytesMax = 4;

bool is_compact(PrivateType type) {
  return type == PrivateType::phone || type == PrivateType::card || type == PrivateType::iban ||
         type == PrivateType::key;
}

std::uint64_t key_of(std::u32string_view text) {
  std::uint64_t key = 0;
  for (const char32_t character : text.substr(0, kKeyCharacters)) key = key << 21 | character;
  return key;
}

// Of which folding makes syllables.
bool is_hangul(char32_t character) { return character >= 0x1100 && character <= 0x11FF; }

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

}  // namespace

std::u32string canonical_value(std::string_view value, PrivateType type) {
  FoldedText folded = fold(value);
  if (!is_compact(type)) return trimmed(std::move(folded.text));
  std::u32string compacted = compact(folded).text;
  return compacted.empty() ? trimmed(std::move(folded.text)) : compacted;
}

bool PrivateVault::add(std::string_view value, PrivateType type) {
  std::u32string text = canonical_value(value, type);
  if (std::ranges::none_of(text, is_letter_or_digit) || known_.contains(text)) return true;
  if (values_.size() == kValuesMax) return false;
  const auto number = static_cast<std::uint32_t>(values_.size());
  known_.emplace(text, number);
  (is_compact(type) ? compacted_ : written_)[key_of(text)].push_back(number);
  values_.push_back({.text = std::move(text), .type = type});
  return true;
}

void PrivateVault::find_in(const FoldedText& text, const Index& index,
                           std::vector<PrivateSpan>& found) const {
  if (index.empty()) return;
  const std::u32string_view all = text.text;
  for (std::size_t at = 0; at < all.size(); ++at) {
    std::size_t longest = 0;
    PrivateType type{};
    for (std::size_t size = 1; size <= std::min(kKeyCharacters, all.size() - at); ++size) {
      const auto candidates = index.find(key_of(all.substr(at, size)));
      if (candidates == index.end()) continue;
      for (const std::uint32_t number : candidates->second) {
        const Value& value = values_[number];
        const std::size_t end = at + value.text.size();
        if (value.text.size() <= longest || !all.substr(at).starts_with(value.text)) continue;
        const bool grouped = is_compact(value.type);
        if (grouped && !holds_together(text, at, end)) continue;
        if ((grouped || value.text.size() < kShort) && !stands_alone(text, at, end)) continue;
        longest = value.text.size();
        type = value.type;
      }
    }
    if (longest == 0) continue;
    found.push_back({.begin = text.begins[at], .end = text.ends[at + longest - 1], .type = type});
  }
}

std::vector<PrivateSpan> PrivateVault::find(std::string_view text) const {
  std::vector<PrivateSpan> found;
  if (values_.empty()) return found;
  const FoldedText folded = fold(text);
  find_in(folded, written_, found);
  if (!compacted_.empty()) find_in(compact(folded), compacted_, found);
  join_overlapping(found);
  return found;
}

void join_overlapping(std::vector<PrivateSpan>& spans) {
  std::ranges::sort(spans, {}, &PrivateSpan::begin);
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
    if (size <= longest) continue;
    joined.back().type = span.type;
    longest = size;
  }
  spans = std::move(joined);
}

}  // namespace edgedraft
