#pragma once

#include "shared/base/error.h"
#include "shared/model/config.h"
#include "shared/model/convert/model_plan.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// Turns the plan of an ordinary model into a drafter for `target` and gives it the target's
// tokenizer. Both must have the same text for each id.
//
// Models of a family may pad their vocabularies to different sizes (Qwen2.5: 151,936 tokens up to
// 3B, 152,064 from 7B on). Then the last rows of the drafter's embedding and head are cut, or the
// last one is repeated. It is a padding row, which a trained model does not propose.
//
// Errors    mismatch: the vocabularies differ in more than padding
Result<void> bind_to_target(const GgufFile& target, const DecoderConfig& config, ModelPlan& plan);

}  // namespace edgedraft
