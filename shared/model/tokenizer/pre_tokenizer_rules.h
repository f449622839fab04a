#pragma once

#include <span>
#include <string>
#include <string_view>

#include "shared/base/error.h"

namespace edgedraft {

// Rules named by tokenizer.ggml.pre: preparation of a text for byte-pair encoding.
struct PreTokenizerRules {
  std::string_view name;  // the one that we write
  std::string_view also;  // further names of the rules, separated by spaces
  // Published expressions in Pattern's dialect; each splits the parts left by the previous one.
  std::span<const char* const> patterns;
  bool nfc = false;            // the text is normalised first
  bool ignore_merges = false;  // a word that is an entry is not merged
  bool adds_bos = false;       // default if the file does not say
  bool requires_bos = false;   // even if the file denies it
  // Entries are spelled in UTF-8 with U+2581 for spaces and <0x0A> for bytes, not in byte letters.
  bool is_plain = false;
};

// All supported rules.
std::span<const PreTokenizerRules> pre_tokenizer_rules();

// Names of all rules, separated by spaces.
std::string pre_tokenizer_names();

// Errors    unsupported: lists the supported names and tells how to choose one
Result<const PreTokenizerRules*> find_pre_tokenizer_rules(std::string_view name);

// Rules for byte letters with exactly these patterns and settings.
// Errors    unsupported: shows the patterns
Result<const PreTokenizerRules*> find_pre_tokenizer_rules(std::span<const std::string> patterns,
                                                          bool nfc, bool ignore_merges);

// Patterns of Hugging Face's ByteLevel and Digits steps, which name none.
extern const char kGpt2Pattern[];
extern const char kDigitPattern[];

// Published expressions that take superlinear time or match empty texts; PreTokenizer replaces
// them.
extern const char kRunAtEndPattern[];           // white space at the end
extern const char kDigitGroupsPattern[];        // before groups of three digits from the right
extern const char kDigitGroupsOfWordPattern[];  // such groups, if no letter follows the digits
extern const char kHalvedBlanksPattern[];       // as the next, with blanks in powers of two
extern const char kLlama3Pattern[];

}  // namespace edgedraft
