#pragma once

#include "shared/model/families/family.h"

namespace edgedraft {

// What Qwen3.5 and its version with experts share: everything but the feed-forward.
void plan_hybrid(PlanKeys& keys, DecoderConfig& config);
void hybrid_mixer(const LayerPlan& plan, LayerList& list);

}  // namespace edgedraft
