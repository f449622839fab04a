#pragma once

#include <memory>

#include "shared/drafting/drafter_kind.h"
#include "shared/model/decoder_tensors.h"

namespace edgedraft {

// An ordinary small decoder with the target's tokenizer; needs only tokens.
extern const DrafterKind kIndependentKind;

// Requires  the tensors' bytes outlive the result
std::unique_ptr<DrafterModel> make_independent_model(DecoderModel model);

}  // namespace edgedraft
