#pragma once

#include "shared/drafting/drafter_kind.h"

namespace edgedraft {

// retrieval: drafts from indexes of public texts; any file with the target's tokenizer will do.
extern const DrafterKind kRetrievalKind;

}  // namespace edgedraft
