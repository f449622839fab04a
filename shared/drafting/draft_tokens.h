#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/families/checkpoint_reader.h"
#include "shared/model/gguf.h"
#include "shared/model/model_plan.h"
#include "shared/model/safetensors.h"

// Reduced vocabularies of published drafters.
namespace edgedraft {

// The target's token of each row of a drafter's head, in any order; nullopt if the head has a row
// per token.
using DraftTokenTable = std::optional<std::vector<std::int64_t>>;

// Reads the table of llama.cpp's file, which has tokens.
// Errors    bad_file: longer than the vocabulary
Result<DraftTokenTable> read_draft_table(const GgufFile& file, std::uint32_t vocabulary_count);
// Reads the table of a checkpoint, which has differences of tokens and rows.
// Errors    as above
Result<DraftTokenTable> read_draft_table(const SafetensorsModel& checkpoint,
                                         std::uint32_t vocabulary_count);
void leave_out_draft_tokens(CheckpointReader& reader);

// Sorts the rows of the plan's head by token, as bundles have them, and sets the vocabulary's key.
// Errors    bad_file: a token outside the target's vocabulary or twice, or another number of rows
Result<void> set_draft_tokens(const DraftTokenTable& table, std::uint32_t vocabulary_count,
                              ModelPlan& plan);

// Null if the plan has no tensor of this name.
PlannedTensor* find_planned(ModelPlan& plan, std::string_view name);

}  // namespace edgedraft
