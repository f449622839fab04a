#pragma once

#include <filesystem>

#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/config.h"
#include "shared/model/model_plan.h"

namespace edgedraft {

// Whether the path is llama.cpp's file of an assistant, or a published checkpoint's folder.
bool is_assistant_source(const std::filesystem::path& drafter);
// Errors    unsupported: the target is of another family
Result<void> check_assistant_target(const DecoderConfig& target);
// Plans the bundle of such a file or folder.
//
// Errors    io, bad_file, unsupported; mismatch: the assistant was made for another target
Result<ModelPlan> plan_assistant_bundle(const BundleSource& source);

}  // namespace edgedraft
