#pragma once

#include <string_view>

#include "shared/base/error.h"
#include "shared/drafting/feature_network.h"
#include "shared/model/gguf.h"
#include "shared/model/model_plan.h"

namespace edgedraft {

// general.architecture of a bundle. It keeps the keys of the target's architecture, which the
// second key names: they are the plan of its layer.
inline constexpr std::string_view kMtpArchitecture = "edgedraft-mtp";
inline constexpr std::string_view kMtpFamily = "edgedraft.family";

// Plans the bundle of a target's first block: its tensors in their types, and the target's
// embedding, head and last norm where it has none of its own.
//
// Errors    bad_file naming the key or tensor; unsupported: no block, or one with tensors of
//           another computation
Result<ModelPlan> plan_mtp_bundle(const GgufFile& target);

// Every shape is checked. Errors    bad_file naming the key or tensor; unsupported
Result<FeatureModel> read_mtp(const GgufFile& file);

}  // namespace edgedraft
