#pragma once

#include "shared/drafting/drafter_kind.h"

namespace edgedraft {

// Drafters from the conversation's own text; accept any file with the target's tokenizer.
extern const DrafterKind kLookupKind;    // pld: prompt lookup
extern const DrafterKind kAdaptiveKind;  // anpd: adaptive n-grams
extern const DrafterKind kNgramKind;     // ngram: best of both

}  // namespace edgedraft
