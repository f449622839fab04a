#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/tokenizer/pattern.h"

namespace edgedraft {

// Unicode's normalisation form C. Close to linear in the text, for any number of stacked marks.
// Requires  valid UTF-8
std::string to_nfc(std::string_view text);

// Rules named by tokenizer.ggml.pre: preparation of a text for byte-level BPE.
struct PreTokenizerRules {
  std::string_view name;                   // the one that we write
  std::span<const std::string_view> also;  // further names of the rules
  std::span<const char* const> patterns;   // each splits the parts left by the previous one
  bool nfc = false;                        // the text is normalised first
  bool ignore_merges = false;              // a word that is an entry is not merged
  bool adds_bos = false;                   // default if the file does not say
};

// All supported rules.
std::span<const PreTokenizerRules> pre_tokenizer_rules();

// Errors    unsupported: names it and the supported ones
Result<const PreTokenizerRules*> find_pre_tokenizer_rules(std::string_view name);

// Rules with exactly these patterns and settings.
// Errors    unsupported: shows the patterns
Result<const PreTokenizerRules*> find_pre_tokenizer_rules(std::span<const std::string> patterns,
                                                          bool nfc, bool ignore_merges);

// Pattern of Hugging Face's ByteLevel and Digits steps, which name none.
extern const char kGpt2Pattern[];
extern const char kDigitPattern[];

// Splits texts into the words within which byte-level BPE merges.
//
// Threads   const methods may run concurrently
class PreTokenizer {
 public:
  explicit PreTokenizer(const PreTokenizerRules& rules);

  // Calls `use` with each word, in order; together they are the normalised text. Accepts any bytes:
  // each run of invalid UTF-8 is a word of its own and ends the text before it.
  void split(std::string_view text, const std::function<void(std::string_view)>& use) const;

 private:
  void split_valid(std::string_view text, std::size_t level,
                   const std::function<void(std::string_view)>& use) const;

  std::vector<Pattern> patterns_;
  bool nfc_;
};

}  // namespace edgedraft
