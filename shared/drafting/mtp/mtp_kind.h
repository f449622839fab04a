#pragma once

#include <memory>

#include "shared/drafting/drafter_kind.h"
#include "shared/drafting/feature_network.h"

namespace edgedraft {

// The multi-token prediction block of a model: one decoder layer that the model was trained with.
// It reads the target's last feature and the token after it, and is cut out of the target's file.
//
// Source    DeepSeek-V3 (2024), section 2.2; the block of Qwen3.5
extern const DrafterKind kMtpKind;

// Requires  the tensors' bytes outlive the result
std::unique_ptr<DrafterModel> make_mtp_model(FeatureModel model);

}  // namespace edgedraft
