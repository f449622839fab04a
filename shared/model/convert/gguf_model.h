#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "shared/base/error.h"
#include "shared/model/convert/model_plan.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

// Plans a copy of a GGUF model with its matrices in `type`, or as they are. Tensors that `is_kept`
// names stay as they are in any case; if it is null the head gets six bits at least.
//
// Errors    as GgufFile::open
Result<ModelPlan> plan_gguf_model(const std::filesystem::path& path, std::optional<DType> type,
                                  bool (*is_kept)(std::string_view tensor) = nullptr);

}  // namespace edgedraft
