#include "shared/model/tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "shared/model/tokenizer/nfc.h"
#include "shared/model/utf8.h"

namespace edgedraft {

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
// What llama.cpp does with files that name no other.
constexpr const char* kDefault[] = {
    R"([\p{P}$+<=>^~|]+)",
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|)"
    R"(\p{White_Space}+(?!\P{White_Space}))",
    R"(\p{N}+)", "[0-9][0-9][0-9]"};

constexpr std::string_view kLlama3Names[] = {"llama3", "llama-v3", "falcon3"};
constexpr std::string_view kSmaugNames[] = {"dbrx"};
constexpr std::string_view kGpt2Names[] = {"phi-2", "olmo"};
constexpr std::string_view kStarcoderNames[] = {"refact", "command-r", "smollm", "codeshell"};

// Source    llama.cpp's table of pre-tokenizers
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
                                      "' (tokenizer.ggml.pre) is not supported; known are " +
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
                                      (ignore_merges ? "with ignore_merges " : "") + "cut by " +
                                      (shown.empty() ? "nothing" : shown) + " is not supported"};
}

PreTokenizer::PreTokenizer(const PreTokenizerRules& rules) : nfc_(rules.nfc) {
  for (const char* expression : rules.patterns) patterns_.emplace_back(expression);
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
