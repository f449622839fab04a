#pragma once

#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/convert/model_plan.h"

namespace edgedraft {

// Plans the bundle of a Mixture-of-Attentions checkpoint. Sizes come from the tensors' shapes. SA
// and CA use the target's head size; LSA has as many query heads as the target unless config.json
// says otherwise.
//
// Source    the layout of the published checkpoint huawei-noah/MOASpec-Llama-3-8B-Instruct
// Errors    bad_file, unsupported; mismatch: the checkpoint was trained for another target
Result<ModelPlan> plan_moa_bundle(const BundleSource& source);

}  // namespace edgedraft
