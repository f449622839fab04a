#pragma once

#include <memory>

#include "shared/drafting/drafter_kind.h"
#include "shared/drafting/medusa/medusa_tensors.h"

namespace edgedraft {

// Heads that guess several tokens at once from the target's last feature.
//
// Source    MEDUSA (Cai et al., 2024)
extern const DrafterKind kMedusaKind;

// Requires  the tensors' bytes outlive the result
std::unique_ptr<DrafterModel> make_medusa_model(MedusaModel model);

}  // namespace edgedraft
