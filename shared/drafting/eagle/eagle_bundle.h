#pragma once

#include <filesystem>

#include "shared/base/error.h"
#include "shared/model/convert/model_plan.h"
#include "shared/model/gguf.h"
#include "shared/model/safetensors.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

struct EagleBundleInput {
  const GgufFile& target;
  SafetensorsModel checkpoint;
  std::filesystem::path directory;  // its config.json is read where there is one
  DType type;                       // of the drafter's own matrices
};

// Whether a checkpoint has the tensors of one.
bool is_eagle_checkpoint(const SafetensorsModel& checkpoint);

// Plans the bundle of an EAGLE or HASS checkpoint. Sizes come from the tensors' shapes; the head
// size from config.json's number of heads, or it is the target's.
//
// Source    the layout of the published checkpoints, such as yuhuili/EAGLE-LLaMA3-Instruct-8B
// Errors    bad_file, unsupported; mismatch: the checkpoint was trained for another target
Result<ModelPlan> plan_eagle_bundle(EagleBundleInput input);

}  // namespace edgedraft
