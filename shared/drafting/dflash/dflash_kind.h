#pragma once

#include <memory>

#include "shared/drafting/dflash/dflash_model.h"
#include "shared/drafting/drafter_kind.h"

namespace edgedraft {

// One pass proposes a whole block: tokens and masks attend to each other and to the target's fused
// states, and the likeliest tokens at each mask are the tree's levels.
//
// Source    DFlash (2026)
extern const DrafterKind kDflashKind;

// Requires  the tensors' bytes outlive the result
std::unique_ptr<DrafterModel> make_dflash_model(DflashModel model);

}  // namespace edgedraft
