#include "client/privacy/private_vault.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "client/privacy/unescaped_text.h"
#include "shared/model/utf8.h"

namespace edgedraft::client {
namespace {

// Shorter values are found only as separate words.
constexpr std::size_t kShort = 6;
// Fewer ASCII characters without a letter or digit occur in any text.
constexpr std::size_t kSignsMin = 3;
// Bounds the bytes between two letters or digits of a value, such as a line break and an indent.
constexpr std::size_t kSeparatorBytesMax = 12;
// Bounds the time per position. After this many values with a common prefix that are not separate
// words, the next one is accepted within a word.
constexpr std::size_t kNestedMax = 64;

// Hangul letters, which folding produces from syllables.
bool is_hangul(char32_t character) {
  return character >= 0x1100 && character <= 0x11FF;
}

// True if both can belong to one word: adjacent letters or digits of scripts with spaces between
// words. A particle may follow a Hangul syllable.
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

// True if a value with the letter or digit before `at` may continue with the one at `at`.
bool holds_together(const FoldedText& text, std::size_t at) {
  return text.begins[at] <= text.ends[at - 1] + kSeparatorBytesMax;
}

std::u32string trimmed(std::u32string text) {
  while (!text.empty() && text.back() == U' ') text.pop_back();
  if (!text.empty() && text.front() == U' ') text.erase(0, 1);
  return text;
}

// Trims line breaks and other blanks.
std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\b\f";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// Replaces umlauts as keyboards without them do: "Mueller".
std::string without_umlauts(std::string_view text) {
  constexpr std::pair<std::string_view, char> kUmlauts[] = {{"ä", 'a'}, {"ö", 'o'}, {"ü", 'u'},
                                                            {"Ä", 'A'}, {"Ö", 'O'}, {"Ü", 'U'}};
  constexpr std::string_view kDiaeresis = "\u0308";
  std::string plain;
  while (!text.empty()) {
    const auto* const umlaut = std::ranges::find_if(
        kUmlauts, [text](const auto& entry) { return text.starts_with(entry.first); });
    const bool is_umlaut = umlaut != std::end(kUmlauts);
    constexpr std::string_view kVowels = "aouAOU";
    if (text.starts_with(kDiaeresis) && !plain.empty() &&
        kVowels.find(plain.back()) != kVowels.npos) {
      plain += 'e';
      text.remove_prefix(kDiaeresis.size());
    } else if (is_umlaut) {
      plain += {umlaut->second, 'e'};
      text.remove_prefix(umlaut->first.size());
    } else {
      plain += text.front();
      text.remove_prefix(1);
    }
  }
  return plain;
}

// Returns the value, its meanings if it has escapes, and each without umlauts.
std::vector<std::string> spellings_of(std::string_view value) {
  std::vector<std::string> spellings{std::string(value)};
  for (UnescapedText& reading : unescaped_texts(value)) {
    spellings.push_back(std::move(reading.text));
  }
  for (std::size_t i = 0, count = spellings.size(); i < count; ++i) {
    std::string plain = without_umlauts(spellings[i]);
    if (plain != spellings[i]) spellings.push_back(std::move(plain));
  }
  return spellings;
}

// True if a value without letters and digits differs from ordinary text.
bool is_kept_by_signs(std::u32string_view written) {
  return written.size() >= kSignsMin ||
         std::ranges::any_of(written, [](char32_t sign) { return sign >= 0x80; });
}

}  // namespace

std::u32string canonical_value(std::string_view value, PrivateType type) {
  FoldedText folded = fold(value);
  if (!is_grouped(type)) return trimmed(std::move(folded.text));
  std::u32string compacted = compact(folded).text;
  return compacted.empty() ? trimmed(std::move(folded.text)) : compacted;
}

void PrivateVault::Forms::add(const std::u32string& text, std::uint32_t value) {
  known.emplace(text, value);
  is_indexed = false;
}

void PrivateVault::Forms::make_index() {
  if (is_indexed) return;
  indexed.assign(known.begin(), known.end());
  std::vector<std::u32string_view> texts;
  for (const auto& [text, value] : indexed) texts.push_back(text);
  index = ValueIndex(texts);
  is_indexed = true;
}

bool PrivateVault::add_to(std::shared_ptr<Values>& values, std::size_t count_max,
                          std::string_view value, PrivateType type, bool as_written) {
  using OfValues = Forms Values::*;
  std::vector<std::pair<OfValues, std::u32string>> added;
  const auto is_known = [&](OfValues forms, const std::u32string& text) {
    return std::ranges::any_of(std::array{values, names_, given_}, [&](const auto& one) {
      const auto found = (one.get()->*forms).known.find(text);
      if (found == (one.get()->*forms).known.end()) return false;
      use(*one, found->second);
      return true;
    });
  };
  for (const std::string& spelling : spellings_of(value)) {
    FoldedText folded = fold(spelling);
    std::u32string compacted = compact(folded).text;
    std::u32string written = trimmed(std::move(folded.text));
    const bool has_letters = !compacted.empty();
    if (!has_letters && !is_kept_by_signs(written)) continue;
    const bool is_written = !is_grouped(type) || !has_letters || as_written;
    if (is_written && !is_known(&Values::written, written)) {
      added.emplace_back(&Values::written, std::move(written));
    }
    const bool is_compacted = has_letters && (is_grouped(type) || compacted.size() >= kShort);
    if (is_compacted && !is_known(&Values::compacted, compacted)) {
      added.emplace_back(&Values::compacted, std::move(compacted));
    }
  }
  if (added.empty()) return true;
  if (values->all.size() >= count_max) return false;
  if (values.use_count() > 1) values = copy_of(*values, [](const Value&) { return true; });
  const auto number = static_cast<std::uint32_t>(values->all.size());
  values->all.push_back({.type = type, .used = now_});
  for (const auto& [forms, text] : added) (values.get()->*forms).add(text, number);
  return true;
}

bool PrivateVault::add(std::string_view value, PrivateType type) {
  return add_to(given_, kValuesMax, value, type, /*as_written=*/false);
}

bool PrivateVault::add_detected(std::string_view value, PrivateType type, bool as_written) {
  return add_to(detected_, kValuesMax, value, type, as_written);
}

bool PrivateVault::add_name(std::string_view name) {
  return add_to(names_, kNamesMax, name, PrivateType::name, /*as_written=*/false);
}

template <typename Stays>
std::shared_ptr<PrivateVault::Values> PrivateVault::copy_of(const Values& values, Stays stays) {
  auto copy = std::make_shared<Values>();
  std::vector<std::uint32_t> numbers;
  for (const Value& value : values.all) {
    numbers.push_back(static_cast<std::uint32_t>(copy->all.size()));
    if (stays(value)) copy->all.push_back(value);
  }
  for (Forms Values::*forms : {&Values::written, &Values::compacted}) {
    for (const auto& [text, number] : (values.*forms).known) {
      if (stays(values.all[number])) (copy.get()->*forms).add(text, numbers[number]);
    }
  }
  return copy;
}

PrivateVault PrivateVault::detached() const {
  const auto all = [](const Value&) { return true; };
  names_->written.make_index();
  names_->compacted.make_index();
  PrivateVault copy = *this;
  copy.given_ = copy_of(*given_, all);
  copy.detected_ = copy_of(*detected_, all);
  return copy;
}

void PrivateVault::add_all(const PrivateVault& copy) {
  const auto take = [](std::shared_ptr<Values>& values, const Values& from) {
    if (values.use_count() > 1) values = copy_of(*values, [](const Value&) { return true; });
    std::vector<std::optional<std::uint32_t>> numbers(from.all.size());  // indexes in this copy
    for (Forms Values::*forms : {&Values::written, &Values::compacted}) {
      Forms& own = values.get()->*forms;
      for (const auto& [text, number] : (from.*forms).known) {
        const Value& value = from.all[number];
        if (const auto found = own.known.find(text); found != own.known.end()) {
          Instant& used = values->all[found->second].used;
          used = std::max(used, value.used);
          continue;
        }
        if (!numbers[number]) {
          numbers[number] = static_cast<std::uint32_t>(values->all.size());
          values->all.push_back(value);
        }
        own.add(text, *numbers[number]);
      }
    }
  };
  take(given_, *copy.given_);
  if (detected_->all.size() + copy.detected_->all.size() > kValuesMax) forget_detected();
  take(detected_, *copy.detected_);
  forget_ended();
}

void PrivateVault::forget_ended() {
  if (given_->all.size() + kRequestMax <= kValuesMax) return;
  std::vector<Instant> ended;
  for (const Value& value : given_->all) {
    if (value.used + kInUse <= now_) ended.push_back(value.used);
  }
  if (ended.empty()) return;
  const std::size_t surplus = std::min(given_->all.size() + kRequestMax - kValuesMax, ended.size());
  const auto last = ended.begin() + static_cast<std::ptrdiff_t>(surplus) - 1;
  std::ranges::nth_element(ended, last);
  given_ = copy_of(*given_, [last = *last](const Value& value) { return value.used > last; });
}

void PrivateVault::find_in(const Searched& searched, Values& values, bool compacted,
                           std::vector<PrivateSpan>& found) const {
  const FoldedText& text = searched.text;
  Forms& forms = compacted ? values.compacted : values.written;
  if (forms.known.empty()) return;
  forms.make_index();
  std::size_t end_max = compacted ? 0 : text.text.size();
  for (std::size_t at = 0; at < text.text.size(); ++at) {
    if (compacted) {
      if (at > 0 && joined(text, at - 1, at)) continue;
      end_max = std::max(end_max, at + 1);
      while (end_max < text.text.size() && holds_together(text, end_max)) ++end_max;
    }
    bool is_found = false;
    std::uint32_t form = forms.index.longest(searched.hashes, at, end_max);
    for (std::size_t tried = 0; form != ValueIndex::kNone;
         form = forms.index.next_shorter(form), ++tried) {
      const auto& [value, number] = forms.indexed[form];
      const std::size_t end = at + value.size();
      if (!is_found && (compacted || value.size() < kShort) && tried < kNestedMax &&
          !stands_alone(text, at, end)) {
        continue;
      }
      // All values at this position are in use; only the longest is reported.
      use(values, number);
      if (is_found && tried >= kNestedMax) break;
      if (is_found) continue;
      is_found = true;
      found.push_back(
          {.begin = text.begins[at], .end = text.ends[end - 1], .type = values.all[number].type});
    }
  }
}

std::vector<PrivateSpan> PrivateVault::find_literally(std::string_view text) const {
  std::vector<PrivateSpan> found;
  if (!has_values()) return found;
  const auto search = [&](const FoldedText& folded, bool compacted) {
    const Searched searched{.text = folded, .hashes = PrefixHashes(folded.text)};
    for (Values* values : {given_.get(), detected_.get(), names_.get()}) {
      find_in(searched, *values, compacted, found);
    }
  };
  const FoldedText folded = fold(text);
  search(folded, /*compacted=*/false);
  search(compact(folded), /*compacted=*/true);
  if (folded.has_zero_width) search(fold(text, /*zero_width_is_blank=*/true), false);
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
  if (const auto type = whole_type(without_blanks(value))) {
    return Known{.text = std::string(value), .type = *type};
  }
  if (!has_values()) return std::nullopt;
  for (const UnescapedText& reading : unescaped_texts(value)) {
    const std::string_view text = without_blanks(reading.text);
    if (const auto type = whole_type(text)) return Known{.text = std::string(text), .type = *type};
  }
  return std::nullopt;
}

bool PrivateVault::is_spelled_by(std::span<const std::string> tokens) const {
  std::unordered_set<std::u32string> pieces;
  std::size_t longest = 0;
  bool has_parts = false;  // parts of a letter's bytes
  for (const std::string& token : tokens) {
    std::u32string piece = compact(fold(token)).text;
    has_parts = has_parts || !is_valid_utf8(token);
    longest = std::max(longest, piece.size());
    if (!piece.empty()) pieces.insert(std::move(piece));
  }
  const auto is_spelled = [&](std::u32string_view value) {
    // Per position: spelled so far, by single digits only or by more.
    enum Spelled : char { no, by_digits, yes };
    std::vector<Spelled> until(value.size() + 1, no);
    until[0] = by_digits;
    for (std::size_t at = 0; at < value.size(); ++at) {
      if (until[at] == no) continue;
      for (std::size_t size = 1; size <= std::min(longest, value.size() - at); ++size) {
        const std::u32string piece(value.substr(at, size));
        if (!pieces.contains(piece)) continue;
        const bool is_digit = size == 1 && is_decimal_digit(piece[0]);
        until[at + size] = std::max(until[at + size], is_digit ? until[at] : yes);
      }
      // Folding loses the bytes of a letter, so parts of its bytes may spell it.
      if (has_parts) until[at + 1] = std::max(until[at + 1], value[at] < 0x80 ? until[at] : yes);
    }
    return until.back() == yes;
  };
  for (const auto& values : {given_, detected_, names_}) {
    for (const Forms* forms : {&values->written, &values->compacted}) {
      for (const auto& [text, number] : forms->known) {
        std::u32string letters;
        std::ranges::copy_if(text, std::back_inserter(letters), is_letter_or_digit);
        if (is_spelled(letters)) return true;
      }
    }
  }
  return false;
}

bool PrivateVault::knows_compacted(const std::u32string& text) const {
  return std::ranges::any_of(std::array{given_, detected_, names_}, [&](const auto& values) {
    return values->compacted.known.contains(text);
  });
}

std::u32string PrivateVault::identity_of(std::string_view value, PrivateType type) const {
  std::u32string compacted = compact(fold(value)).text;
  return knows_compacted(compacted) ? compacted : canonical_value(value, type);
}

void join_overlapping(std::vector<PrivateSpan>& spans) {
  // An empty span stays separate if another begins at its position.
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

}  // namespace edgedraft::client
