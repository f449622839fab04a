#pragma once

#include "shared/base/error.h"
#include "shared/model/config.h"
#include "shared/model/convert/model_plan.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// Turns the plan of an ordinary model into that of a drafter for `target`, whose tokenizer it gets:
// both must have the same text for the same id.
//
// Models of one family may fill their vocabularies up to different sizes (Qwen2.5: 151,936 tokens
// up to 3B, 152,064 from 7B on). Then the drafter's embedding and head lose their last rows, or get
// copies of the last one: a filler's, which a trained model does not propose.
//
// Errors    mismatch: the vocabularies differ in more than what fills them up
Result<void> bind_to_target(const GgufFile& target, const DecoderConfig& config, ModelPlan& plan);

}  // namespace edgedraft
