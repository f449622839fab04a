#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "shared/base/error.h"
#include "shared/model/model_plan.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

// Plans the conversion of a directory in Hugging Face's layout.
//
// Errors    io, bad_file, unsupported, mismatch: naming the file, key or tensor
Result<ModelPlan> plan_hf_model(const std::filesystem::path& directory, DType type,
                                const std::optional<std::string>& pre = {});

}  // namespace edgedraft
