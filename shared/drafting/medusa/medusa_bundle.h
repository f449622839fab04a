#pragma once

#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/convert/model_plan.h"
#include "shared/model/safetensors.h"

namespace edgedraft {

// Whether a checkpoint has MEDUSA's tensors.
bool is_medusa_checkpoint(const SafetensorsModel& checkpoint);

// Plans the bundle of MEDUSA's heads. They have K.0.linear.weight and .bias for K = 0, 1, ..., and
// each its own K.1.weight (version 1) or the target's head (version 2). All names may start with
// "medusa_head.", beside other tensors. config.json may hold a tree as `medusa_choices`, paths of
// ranks. The tensors determine the number of heads: published configurations state it wrongly.
//
// Source    the layout of the published heads, such as FasterDecoding/medusa-vicuna-7b-v1.3
// Errors    bad_file, unsupported; mismatch: the heads were trained for another target
Result<ModelPlan> plan_medusa_bundle(const BundleSource& source);

}  // namespace edgedraft
