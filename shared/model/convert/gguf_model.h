#pragma once

#include <filesystem>
#include <optional>

#include "shared/base/error.h"
#include "shared/model/convert/model_plan.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

// Plans a copy of a GGUF model with its matrices in `type`, or as they are. What a bundle shares
// with its target bit for bit stays as it is in any case.
//
// Errors    as GgufFile::open
Result<ModelPlan> plan_gguf_model(const std::filesystem::path& path, std::optional<DType> type);

}  // namespace edgedraft
