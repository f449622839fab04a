#pragma once

#include <memory>

#include "shared/drafting/drafter_kind.h"
#include "shared/drafting/eagle/eagle_tensors.h"

namespace edgedraft {

// One decoder layer that predicts the target's next feature from the last one and the token after
// it. EAGLE, EAGLE-2 and HASS share this network; they differ in training and search.
//
// Source    EAGLE (Li et al., 2024), EAGLE-2, HASS
extern const DrafterKind kEagleKind;

// Requires  the tensors' bytes outlive the result
std::unique_ptr<DrafterModel> make_eagle_model(EagleModel model);

}  // namespace edgedraft
