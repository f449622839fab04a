#pragma once

#include <filesystem>

#include "shared/base/error.h"
#include "shared/model/convert/model_plan.h"
#include "shared/model/gguf.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

struct MoaBundleInput {
  const GgufFile& target;
  SafetensorsModel checkpoint;
  std::filesystem::path directory;  // its config.json is read where there is one
  DType type;                       // of the drafter's own matrices
};

// Plans the bundle of a Mixture-of-Attentions checkpoint. Sizes come from the tensors' shapes; SA
// and CA have heads of the target's size, LSA as many query heads as the target unless config.json
// says otherwise.
//
// Source    the layout of the published checkpoint huawei-noah/MOASpec-Llama-3-8B-Instruct
// Errors    bad_file, unsupported; mismatch: the checkpoint was trained for another target
Result<ModelPlan> plan_moa_bundle(MoaBundleInput input);

}  // namespace edgedraft
