#pragma once

#include <filesystem>

#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/model_plan.h"

namespace edgedraft {

// Whether `drafter` is llama.cpp's GGUF file of an EAGLE-3 drafter, or a folder with its tensors.
bool is_eagle3_source(const std::filesystem::path& drafter);

// Plans a bundle. Embedding and head are the drafter's own, else the target's.
//
// Of a folder, the layer is `midlayer.` (SGLang, SpecForge) or `layers.0.` (speculators). In
// config.json, `eagle_aux_hidden_state_layer_ids` lists the layers whose inputs are read; inside
// `eagle_config` it lists those whose outputs are read; without it they are 2, L / 2 and L - 3 of
// L.
//
// Source    the layouts of yuhuili/EAGLE3-LLaMA3.1-Instruct-8B and RedHatAI's speculators;
//           llama.cpp's eagle3 files
// Errors    io, bad_file, unsupported; mismatch: the drafter was made for another target
Result<ModelPlan> plan_eagle3_bundle(const BundleSource& source);

}  // namespace edgedraft
