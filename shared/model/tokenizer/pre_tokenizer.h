#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/tokenizer/pattern.h"

namespace edgedraft {

// What tokenizer.ggml.pre names: how byte-level BPE prepares a text.
struct PreTokenizerRules {
  std::string_view name;                   // the one that we write
  std::span<const std::string_view> also;  // further names of it
  std::span<const char* const> patterns;   // each cuts what the one before left
  bool nfc = false;                        // the text is normalised first
  bool ignore_merges = false;              // a word that is an entry is taken as it is
  bool adds_bos = false;                   // where the file does not say
};

// All that are known.
std::span<const PreTokenizerRules> pre_tokenizer_rules();

// Errors    unsupported: names it and those that are known
Result<const PreTokenizerRules*> find_pre_tokenizer_rules(std::string_view name);

// The rules that do just this.
// Errors    unsupported: shows the patterns
Result<const PreTokenizerRules*> find_pre_tokenizer_rules(std::span<const std::string> patterns,
                                                          bool nfc, bool ignore_merges);

// What tokenizers of Hugging Face cut with where they name no pattern: ByteLevel and Digits.
extern const char kGpt2Pattern[];
extern const char kDigitPattern[];

// Cuts texts into the words within which byte-level BPE merges.
//
// Threads   const methods may run concurrently
class PreTokenizer {
 public:
  explicit PreTokenizer(const PreTokenizerRules& rules);

  // Calls `use` with each word, in order: together the normalised text. Any bytes will do: those
  // that are no UTF-8 are kept, each run of them a word of its own, which ends the text before it.
  void split(std::string_view text, const std::function<void(std::string_view)>& use) const;

 private:
  void split_valid(std::string_view text, std::size_t level,
                   const std::function<void(std::string_view)>& use) const;

  std::vector<Pattern> patterns_;
  bool nfc_;
};

}  // namespace edgedraft
