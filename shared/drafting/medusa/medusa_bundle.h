#pragma once

#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/convert/model_plan.h"
#include "shared/model/safetensors.h"

namespace edgedraft {

// Whether a checkpoint has the tensors of one.
bool is_medusa_checkpoint(const SafetensorsModel& checkpoint);

// Plans the bundle of MEDUSA's heads: K.0.linear.weight and .bias for K = 0, 1, ..., with a head
// K.1.weight of each one's own (version 1) or with the target's (version 2); all names may begin
// with "medusa_head.", beside whatever else the file has. config.json may have a tree as
// `medusa_choices`, paths of ranks. How many heads there are the tensors say: published
// configurations are wrong in that.
//
// Source    the layout of the published heads, such as FasterDecoding/medusa-vicuna-7b-v1.3
// Errors    bad_file, unsupported; mismatch: the heads were trained for another target
Result<ModelPlan> plan_medusa_bundle(const BundleSource& source);

}  // namespace edgedraft
