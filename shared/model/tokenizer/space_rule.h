#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/error.h"
#include "shared/model/gguf.h"

namespace edgedraft {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, SentencePiece's space

// A text with kSpaceMark for its spaces, and the reverse.
std::string with_space_marks(std::string_view text);
std::string without_space_marks(std::string_view text);

// Selects the parts of a text before which SentencePiece's pieces get a space. Control tokens,
// user-defined symbols and Hugging Face's added tokens separate parts.
enum class SpaceRule : std::uint8_t {
  none,
  each,    // every part, even one that starts with a space
  first,   // Hugging Face's: the start of the text, unless it is a space or such a token
  always,  // Hugging Face's: every part that does not start with a space
};

// Key for Hugging Face's rules: "first" or "always". llama.cpp's key
// tokenizer.ggml.add_space_prefix only has `none` and `each`.
inline constexpr std::string_view kSpaceRuleKey = "edgedraft.tokenizer.space_prefix";

// Hugging Face's name of the rule; empty if it has none.
std::string_view space_rule_name(SpaceRule rule);
std::optional<SpaceRule> find_space_rule(std::string_view name);

// Errors    bad_file: an unknown rule, or one that contradicts add_space_prefix = false
Result<SpaceRule> read_space_rule(const GgufFile& file);

// True if a space goes before `part`, which starts at byte `begin` of the text. Not for `each`,
// which SentencePiece applies itself.
bool wants_space(SpaceRule rule, std::string_view part, std::size_t begin);

}  // namespace edgedraft
