#include "shared/model/tokenizer/pre_tokenizer.h"

#include <utf8proc.h>
#include <algorithm>

#include "shared/base/check.h"
#include "shared/model/utf8.h"

namespace edgedraft {
namespace {

// Above the length of any character's decomposition.
constexpr std::size_t kDecompositionMax = 32;

int combining_class(utf8proc_int32_t code) {
  return utf8proc_get_property(code)->combining_class;
}

std::vector<utf8proc_int32_t> decompose(std::string_view text) {
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(text.size());
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto* const end = at + text.size();
  while (at < end) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t count = utf8proc_iterate(at, end - at, &code);
    EDGEDRAFT_CHECK(count > 0);
    at += count;
    utf8proc_int32_t parts[kDecompositionMax];
    int boundary = 0;
    const utf8proc_ssize_t part_count =
        utf8proc_decompose_char(code, parts, kDecompositionMax, UTF8PROC_DECOMPOSE, &boundary);
    EDGEDRAFT_CHECK(part_count >= 0 &&
                    part_count <= static_cast<utf8proc_ssize_t>(kDecompositionMax));
    codes.insert(codes.end(), parts, parts + part_count);
  }
  return codes;
}

// Sorts each run of marks into canonical order. utf8proc's own sort is quadratic in a run.
void order_marks(std::vector<utf8proc_int32_t>& codes) {
  for (auto first = codes.begin(); first != codes.end();) {
    if (combining_class(*first) == 0) {
      ++first;
      continue;
    }
    const auto last = std::find_if(
        first, codes.end(), [](utf8proc_int32_t code) { return combining_class(code) == 0; });
    std::stable_sort(first, last, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return combining_class(a) < combining_class(b);
    });
    first = last;
  }
}

}  // namespace

std::string to_nfc(std::string_view text) {
  // Text below U+0300, the first combining mark, never changes.
  const bool unchanged = std::all_of(text.begin(), text.end(),
                                     [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
  if (unchanged) return std::string(text);

  std::vector<utf8proc_int32_t> codes = decompose(text);
  order_marks(codes);
  const utf8proc_ssize_t count =
      utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  EDGEDRAFT_CHECK(count >= 0);
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    out += to_utf8(static_cast<char32_t>(codes[static_cast<std::size_t>(i)]));
  }
  return out;
}

namespace {

// Groups of three digits, counted from the right, in a text of digits only.
constexpr char kGroupsOfDigits[] = R"(^\p{N}{1,2}(?=(?:\p{N}{3})*+\z)|\p{N}{3})";

// Expressions that take linear time, each on the parts left by the previous one.
std::vector<const char*> linear_form(const char* published) {
  const std::string_view expression = published;
  if (expression == kRunAtEndPattern) {
    // If a run does not reach the end, no suffix of it does, so the search skips it.
    return {R"(\s++(?:$|(*SKIP)(*FAIL)))"};
  }
  if (expression == kDigitGroupsPattern) return {kGroupsOfDigits};
  if (expression == kDigitGroupsOfWordPattern) {
    return {R"(\d++(?:(?![\p{L}\p{M}\p{Nl}\p{Pc}])|(*SKIP)(*FAIL)))", kGroupsOfDigits};
  }
  if (expression == kHalvedBlanksPattern) {
    // Parts of blanks alone are divided; those that end in a line end stay.
    return {kLlama3Pattern,
            R"(^\s++(?<=[\r\n])(*SKIP)(*FAIL)|[^\S\r\n]{512}|[^\S\r\n]{256}|[^\S\r\n]{128}|)"
            R"([^\S\r\n]{64}|[^\S\r\n]{32}|[^\S\r\n]{16}|[^\S\r\n]{8}|[^\S\r\n]{4}|)"
            R"([^\S\r\n]{2})"};
  }
  return {published};
}

}  // namespace

PreTokenizer::PreTokenizer(const PreTokenizerRules& rules) : nfc_(rules.nfc) {
  for (const char* published : rules.patterns) {
    for (const char* expression : linear_form(published)) patterns_.emplace_back(expression);
  }
}

void PreTokenizer::split(std::string_view text,
                         const std::function<void(std::string_view)>& use) const {
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    if (valid > 0) {
      const std::string_view whole = text.substr(0, valid);
      if (nfc_) {
        split_valid(to_nfc(whole), 0, use);
      } else {
        split_valid(whole, 0, use);
      }
      text.remove_prefix(valid);
    }
    std::size_t broken = 0;
    while (broken < text.size()) {
      const Utf8Front front = utf8_front(text.substr(broken));
      if (front.kind == Utf8Front::Kind::character) break;
      broken += front.byte_count;
    }
    if (broken > 0) use(text.substr(0, broken));
    text.remove_prefix(broken);
  }
}

void PreTokenizer::split_valid(std::string_view text, std::size_t level,
                               const std::function<void(std::string_view)>& use) const {
  if (level == patterns_.size()) return use(text);
  patterns_[level].split(text, [&](std::string_view piece) { split_valid(piece, level + 1, use); });
}

}  // namespace edgedraft
