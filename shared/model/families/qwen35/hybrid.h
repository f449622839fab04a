#pragma once

#include "shared/model/families/family.h"
#include "shared/model/families/hf_keys.h"

namespace edgedraft {

// Functions that Qwen3.5 and its version with experts share: they differ in the feed-forward.
void plan_hybrid(PlanKeys& keys, DecoderConfig& config);
void hybrid_mixer(const LayerPlan& plan, LayerList& list);
void hybrid_hf(HfKeys& keys);
// Adds the block that drafts (MTP), if the checkpoint has one.
void hybrid_hf_tensors(CheckpointReader& reader, const DecoderConfig& config);
inline constexpr std::string_view kHybridDefaults = R"({"partial_rotary_factor": 0.25})";
inline constexpr std::string_view kHybridPlainNorm = "ssm_norm.weight";

}  // namespace edgedraft
