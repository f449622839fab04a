#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace edgedraft::client {

// A regular expression of JSON Schema (ECMA-262) as part of a grammar.
struct PatternGrammar {
  std::string body;           // text inside a JSON string's quotation marks; uses rule `char`
  std::uint32_t repeats = 0;  // sum of its repetition bounds
  bool is_exact = true;       // false: also accepts texts that the pattern rejects
};

// Omits lookarounds and word boundaries, which accepts more. Empty if a grammar cannot express or
// bound the pattern: backreferences, Unicode properties, anchors within groups.
std::optional<PatternGrammar> pattern_grammar(std::string_view pattern);

// Largest magnitude of whole numbers in grammars: 18 digits always fit 64 bits.
inline constexpr std::int64_t kWholeMax = 999'999'999'999'999'999;

// Returns grammar alternatives for whole numbers from `first` to `last`; empty if there are none.
//
// Requires  both within [-kWholeMax, kWholeMax]
std::string whole_numbers(std::int64_t first, std::int64_t last);

}  // namespace edgedraft::client
