#pragma once

#include <memory>

#include "shared/drafting/drafter_kind.h"
#include "shared/drafting/gemma4_assistant/assistant_model.h"

namespace edgedraft {

// The published assistants of Gemma 4: a few blocks without keys of their own, which attend to the
// target's keys and values and continue its last feature.
//
// Source    Gemma 4 assistants in transformers and llama.cpp (gemma4-assistant)
extern const DrafterKind kGemma4AssistantKind;

// Requires  the tensors' bytes outlive the result
std::unique_ptr<DrafterModel> make_assistant_model(AssistantModel model);

}  // namespace edgedraft
