#pragma once

#include <memory>

#include "shared/drafting/drafter_kind.h"
#include "shared/model/decoder_tensors.h"

namespace edgedraft {

// An ordinary small decoder with the target's tokenizer, which needs nothing but tokens.
extern const DrafterKind kIndependentKind;

// Requires  the bytes behind the tensors outlive the result
std::unique_ptr<DrafterModel> make_independent_model(DecoderModel model);

}  // namespace edgedraft
