#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "shared/base/error.h"
#include "shared/model/gguf.h"

namespace edgedraft {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, SentencePiece's space

// Before which parts of a text SentencePiece's pieces get a space. Control tokens and user-defined
// symbols, Hugging Face's added tokens, part it.
enum class SpaceRule : std::uint8_t {
  none,
  each,    // every part, even one that begins with a space
  first,   // Hugging Face's: the beginning of the text, unless that is a space or such a token
  always,  // Hugging Face's: every part that does not begin with a space
};

// Which of Hugging Face's rules a file follows: "first" or "always". llama.cpp's key
// tokenizer.ggml.add_space_prefix knows `none` and `each` alone.
inline constexpr std::string_view kSpaceRuleKey = "edgedraft.tokenizer.space_prefix";

// The names are Hugging Face's as well. Empty for the rules that have none.
std::string_view space_rule_name(SpaceRule rule);
std::optional<SpaceRule> find_space_rule(std::string_view name);

// Errors    bad_file: no such rule, or one beside an add_space_prefix that says there is none
Result<SpaceRule> read_space_rule(const GgufFile& file);

// Whether a space goes before `part`, which begins at byte `begin` of the text. Not for `each`,
// which SentencePiece follows itself.
bool wants_space(SpaceRule rule, std::string_view part, std::size_t begin);

}  // namespace edgedraft
