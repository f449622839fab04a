#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/model/tokenizer/pattern.h"
#include "shared/model/tokenizer/pre_tokenizer_rules.h"

namespace edgedraft {

// Unicode's normalisation form C. Close to linear in the text, for any number of stacked marks.
// Requires  valid UTF-8
std::string to_nfc(std::string_view text);

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
