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

// The published expressions, with \p{White_Space} for \s (see Pattern).
constexpr char kGpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|)"
    R"(\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+)";
constexpr char kDigitPattern[] = R"(\p{N})";

namespace {

constexpr const char* kLlama3[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\p{White_Space}\p{L}\p{N}]+[\r\n]*|\p{White_Space}*[\r\n]+|)"
    R"(\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+)"};
constexpr const char* kQwen2[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\p{White_Space}\p{L}\p{N}]+[\r\n]*|\p{White_Space}*[\r\n]+|)"
    R"(\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+)"};
constexpr const char* kGpt2[] = {kGpt2Pattern};
constexpr const char* kDigitsThenGpt2[] = {kDigitPattern, kGpt2Pattern};
// llama.cpp's choice for files that name no other.
constexpr const char* kDefault[] = {
    R"([\p{P}$+<=>^~|]+)",
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|)"
    R"(\p{White_Space}+(?!\P{White_Space}))",
    R"(\p{N}+)", "[0-9][0-9][0-9]"};

// DeepSeek's first two patterns isolate one kind of character each. Ranges with look-alike letters
// are written as code points, which editors preserve.
constexpr char kLineEnd[] = R"([\r\n])";
constexpr char kCjk[] = "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+";
constexpr char kRunAtEnd[] = R"(\p{White_Space}+$)";
constexpr const char* kDeepSeekLlm[] = {
    kLineEnd,
    // Alphabets with upper and lower case.
    "\\p{White_Space}?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA"
    "\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF\u0370-\u0373\u0376\u0377"
    "\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5"
    "\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5"
    "\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B"
    "\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D"
    "\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D"
    "\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4"
    "\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC"
    "\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115"
    "\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139"
    "\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B"
    "\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B"
    "\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF"
    "\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A"
    "\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2"
    "\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943]+",
    "\\p{White_Space}?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F"
    "\u3000-\u3002]+",
    kRunAtEnd, kCjk, kDigitPattern};
constexpr const char* kDeepSeekCoder[] = {kLineEnd, R"(\p{White_Space}?\p{L}+)",
                                          R"(\p{White_Space}?\p{P}+)", kCjk, kDigitPattern};
constexpr const char* kDeepSeek3[] = {
    "\\p{N}{1,3}", "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
    R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
    R"(\p{White_Space}*[\r\n]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+)"};

constexpr std::string_view kLlama3Names[] = {"llama3", "llama-v3", "falcon3"};
constexpr std::string_view kSmaugNames[] = {"dbrx"};
constexpr std::string_view kGpt2Names[] = {"phi-2", "olmo"};
constexpr std::string_view kStarcoderNames[] = {"refact", "command-r", "smollm", "codeshell"};

// Source    llama.cpp's table of pre-tokenizers; the models' tokenizer.json if they differ
constexpr PreTokenizerRules kRules[] = {
    {.name = "llama-bpe",
     .also = kLlama3Names,
     .patterns = kLlama3,
     .ignore_merges = true,
     .adds_bos = true},
    {.name = "smaug-bpe", .also = kSmaugNames, .patterns = kLlama3},
    {.name = "qwen2", .also = {}, .patterns = kQwen2, .nfc = true},
    {.name = "deepseek-r1-qwen", .also = {}, .patterns = kQwen2},
    {.name = "gpt-2", .also = kGpt2Names, .patterns = kGpt2},
    {.name = "starcoder", .also = kStarcoderNames, .patterns = kDigitsThenGpt2},
    {.name = "deepseek-llm", .also = {}, .patterns = kDeepSeekLlm},
    {.name = "deepseek-coder", .also = {}, .patterns = kDeepSeekCoder},
    {.name = "deepseek-v3", .also = {}, .patterns = kDeepSeek3},
    {.name = "default", .also = {}, .patterns = kDefault},
};

}  // namespace

std::span<const PreTokenizerRules> pre_tokenizer_rules() {
  return kRules;
}

Result<const PreTokenizerRules*> find_pre_tokenizer_rules(std::string_view name) {
  std::string known;
  for (const PreTokenizerRules& rules : kRules) {
    if (rules.name == name || std::ranges::find(rules.also, name) != rules.also.end()) {
      return &rules;
    }
    known += (known.empty() ? "" : ", ") + std::string(rules.name);
  }
  return Error{Errc::unsupported, "the pre-tokenizer '" + std::string(name) +
                                      "' (tokenizer.ggml.pre) is not supported; supported are " +
                                      known};
}

Result<const PreTokenizerRules*> find_pre_tokenizer_rules(std::span<const std::string> patterns,
                                                          bool nfc, bool ignore_merges) {
  for (const PreTokenizerRules& rules : kRules) {
    if (std::ranges::equal(rules.patterns, patterns) && rules.nfc == nfc &&
        rules.ignore_merges == ignore_merges) {
      return &rules;
    }
  }
  std::string shown;
  for (const std::string& pattern : patterns) shown += (shown.empty() ? "" : ", then ") + pattern;
  return Error{Errc::unsupported, std::string("byte-level BPE ") + (nfc ? "of NFC text " : "") +
                                      (ignore_merges ? "with ignore_merges " : "") + "split by " +
                                      (shown.empty() ? "nothing" : shown) + " is not supported"};
}

PreTokenizer::PreTokenizer(const PreTokenizerRules& rules) : nfc_(rules.nfc) {
  for (const char* expression : rules.patterns) {
    // If a run does not reach the end, no suffix of it does, so the search skips it.
    const bool is_run = std::string_view(expression) == kRunAtEnd;
    patterns_.emplace_back(is_run ? R"(\p{White_Space}++(?:$|(*SKIP)(*FAIL)))" : expression);
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
