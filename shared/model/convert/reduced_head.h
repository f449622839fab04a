#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/convert/model_plan.h"
#include "shared/model/tokenizer.h"

namespace edgedraft {

struct DraftTokenOptions {
  std::filesystem::path corpus;  // a text like those that the drafter will write
  std::uint32_t count = 0;
};

// Which tokens a drafter may propose.
struct DraftTokens {
  std::vector<std::uint32_t> tokens;  // ascending
  std::uint64_t corpus_tokens = 0;    // control tokens aside
  std::uint64_t covered = 0;          // of these, how many are among `tokens`
};

// The control tokens and those that end an answer, and as many of the corpus' most frequent tokens
// as there is room for; equally frequent ones by lowest id. The texts of control tokens in the
// corpus mean the tokens.
//
// Errors    usage: a count that is too small for the control tokens or more than the vocabulary, an
//           empty corpus; io: no such file
// Cost      memory for the vocabulary and a megabyte of the text; shows its progress on a terminal
Result<DraftTokens> choose_draft_tokens(const Tokenizer& tokenizer,
                                        const DraftTokenOptions& options);

// Leaves of a drafter's head the rows of `tokens`, which belong to the vocabulary, and adds their
// table (draft_vocabulary.h). Where the head is the embedding it becomes a tensor of its own.
//
// Errors    bad_file where there is no head of such a vocabulary; unsupported where it is reduced
//           already
Result<void> reduce_head(const std::vector<std::uint32_t>& tokens, ModelPlan& plan);

}  // namespace edgedraft
