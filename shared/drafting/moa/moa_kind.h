#pragma once

#include <memory>

#include "shared/drafting/drafter_kind.h"
#include "shared/drafting/moa/moa_tensors.h"

namespace edgedraft {

// Mixture of Attentions: self-attention over the tokens, cross-attention to the target's keys and
// values, and the target's last layers (TLI).
//
// Source    Mixture of Attentions for speculative decoding, section 3
extern const DrafterKind kMoaKind;

// Requires  the tensors' bytes outlive the result
std::unique_ptr<DrafterModel> make_moa_model(MoaModel model);

}  // namespace edgedraft
