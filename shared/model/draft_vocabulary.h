#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// Key of a drafter whose head has fewer tokens than the target. Its value is an array of integers:
// row i of output.weight is the target's token i + d2t[i].
//
// Source    the draft vocabulary of EAGLE-3, whose checkpoints hold the same differences
inline constexpr std::string_view kDraftVocabularyKey = "edgedraft.d2t";

// Tokens of the head's rows, ascending; empty if the head has a row per token.
//
// Errors    bad_file: not an array of integers, empty or longer than the vocabulary, or tokens
//           repeated, out of order or outside the vocabulary
Result<std::vector<std::uint32_t>> read_draft_tokens(const GgufFile& file,
                                                     std::uint32_t vocabulary_count);

// Value of the key. Requires  tokens ascending
std::vector<std::int32_t> to_d2t(std::span<const std::uint32_t> tokens);

}  // namespace edgedraft
