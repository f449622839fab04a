#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace edgedraft {

// A regular expression of JSON Schema (ECMA-262) as a part of a grammar.
struct PatternGrammar {
  std::string body;           // the text between a JSON string's quotation marks; uses rule `char`
  std::uint32_t repeats = 0;  // the bounds of its repetitions, added up
  bool is_exact = true;       // false: it also accepts texts that the pattern rejects
};

// Lookarounds and word boundaries are left out, which accepts more. Returns nothing for what a
// grammar cannot express or bound: backreferences, Unicode properties, anchors within groups.
std::optional<PatternGrammar> pattern_grammar(std::string_view pattern);

}  // namespace edgedraft
