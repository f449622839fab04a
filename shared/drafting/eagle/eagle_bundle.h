#pragma once

#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/convert/model_plan.h"
#include "shared/model/safetensors.h"

namespace edgedraft {

// Whether a checkpoint has EAGLE's tensors.
bool is_eagle_checkpoint(const SafetensorsModel& checkpoint);

// Plans the bundle of an EAGLE or HASS checkpoint. Sizes come from the tensors' shapes. The head
// size comes from config.json's number of heads, or else from the target.
//
// Source    the layout of the published checkpoints, such as yuhuili/EAGLE-LLaMA3-Instruct-8B
// Errors    bad_file, unsupported; mismatch: the checkpoint was trained for another target
Result<ModelPlan> plan_eagle_bundle(const BundleSource& source);

}  // namespace edgedraft
