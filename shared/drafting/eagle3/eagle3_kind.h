#pragma once

#include <memory>

#include "shared/drafting/drafter_kind.h"
#include "shared/drafting/eagle3/eagle3_model.h"

namespace edgedraft {

// One decoder layer over a projection of three hidden states of the target and the tokens one step
// ahead, usually with a reduced vocabulary. The server projects, so the link carries one row of the
// drafter's width per position.
//
// Source    EAGLE-3 (Li et al., 2025)
extern const DrafterKind kEagle3Kind;

// Requires  the tensors' bytes outlive the result
std::unique_ptr<DrafterModel> make_eagle3_model(Eagle3Model model);

}  // namespace edgedraft
