#pragma once

#include <filesystem>

#include "shared/base/error.h"
#include "shared/model/convert/model_plan.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

// Plans a copy of a GGUF model with its matrices in another type. What a bundle shares with its
// target bit for bit stays as it is.
//
// Errors    as GgufFile::open
Result<ModelPlan> plan_gguf_model(const std::filesystem::path& path, DType type);

}  // namespace edgedraft
