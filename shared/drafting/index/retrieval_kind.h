#pragma once

#include "shared/drafting/drafter_kind.h"

namespace edgedraft {

// retrieval: drafts from indexes of public texts; accepts any file with the target's tokenizer.
extern const DrafterKind kRetrievalKind;

}  // namespace edgedraft
