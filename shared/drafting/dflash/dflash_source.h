#pragma once

#include <filesystem>

#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/model_plan.h"

namespace edgedraft {

// Whether plan_dflash_bundle() reads it: a GGUF file of llama.cpp's architecture "dflash", or a
// folder with the tensors of a published checkpoint.
bool is_dflash_source(const std::filesystem::path& drafter);

// Plans the bundle. The target's embedding and head are copied unless the drafter has its own.
//
// Source    the layouts of llama.cpp and of z-lab's checkpoints, such as Qwen3-8B-DFlash
// Errors    bad_file; mismatch: made for another target; unsupported: names the key or tensor of
//           another computation, such as DFlash2's convolutions and DSpark's Markov head
Result<ModelPlan> plan_dflash_bundle(const BundleSource& source);

}  // namespace edgedraft
