#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/model_plan.h"
#include "shared/model/tokenizer.h"

namespace edgedraft {

struct DraftTokenOptions {
  // Texts similar to those that the drafter will write. Without any, a token's frequency is taken
  // from its id: BPE vocabularies list frequent tokens first.
  std::vector<std::filesystem::path> texts;
  std::uint32_t count = 0;
  // Names in messages.
  std::string_view text_option = "--corpus";
  std::string_view count_option = "--draft-vocab";
};

// Tokens that a drafter may propose.
struct DraftTokens {
  std::vector<std::uint32_t> tokens;  // ascending
  std::uint64_t corpus_tokens = 0;    // of the texts, without control tokens
  std::uint64_t covered = 0;          // number of those that are in `tokens`

  double covered_percent() const {
    return 100.0 * static_cast<double>(covered) / static_cast<double>(corpus_tokens);
  }
};

// Chooses the control tokens, those that end an answer, and the most frequent tokens of the texts
// up to the count; ties by lowest id. Names of control tokens in the texts count as the tokens.
//
// Errors    usage: a count below the number of control tokens or above the vocabulary, empty texts;
//           io: no such file
// Cost      memory for the vocabulary and a megabyte of a text; shows progress on a terminal
Result<DraftTokens> choose_draft_tokens(const Tokenizer& tokenizer,
                                        const DraftTokenOptions& options);

// Cuts a drafter's head to the rows of `tokens` and adds their table (draft_vocabulary.h). A tied
// head becomes a separate tensor.
//
// Requires  tokens within the vocabulary
// Errors    bad_file if there is no head of that vocabulary; unsupported if already reduced
Result<void> reduce_head(const std::vector<std::uint32_t>& tokens, ModelPlan& plan);

}  // namespace edgedraft
