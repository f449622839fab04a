#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// A drafter whose head knows fewer tokens than the target has this key, an array of integers: row i
// of output.weight belongs to the target's token i + d2t[i].
//
// Source    the draft vocabulary of EAGLE-3, whose checkpoints hold the same differences
inline constexpr std::string_view kDraftVocabularyKey = "edgedraft.d2t";

// The tokens of the head's rows, ascending; empty where the head has a row for each token.
//
// Errors    bad_file: no array of integers, none or more than the vocabulary has, a token twice,
// out
//           of order or outside the vocabulary
Result<std::vector<std::uint32_t>> read_draft_tokens(const GgufFile& file,
                                                     std::uint32_t vocabulary_count);

// The value of the key. Requires  tokens ascending
std::vector<std::int32_t> to_d2t(std::span<const std::uint32_t> tokens);

}  // namespace edgedraft
