#pragma once

#include "shared/drafting/ngram/ngram_table.h"
#include "shared/speculative/draft_tree.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// Trees that continue a text with tokens that followed the same context earlier.
//
// Scores are log probabilities, comparable with a network's. After a context of m tokens with
// `total` occurrences, `count` of them before this token, the probability is count / (total +
// escape(m)). The escape is the weight of unseen tokens, in occurrences, as in PPM. It falls with
// the length of the match, because longer runs repeat more reliably.

// Prompt lookup: finds the longest earlier run of up to three tokens that equals the end of the
// text. It takes the earliest place with a full continuation and copies up to ten tokens. With a
// breadth above 1 it also copies the next runs whose continuations start differently.
//
// Source    Prompt Lookup Decoding as in Spec-Bench: match 3, 2, 1, copy 10
DraftTree lookup_tree(const NgramTable& table, const TreeShape& shape);

// Adaptive n-grams: below each node are the likeliest tokens after the longest known context,
// backing off to shorter ones; the best nodes grow first. With breadth 1 it is a chain.
//
// Source    ANPD, with runs of up to NgramTable::kOrderMax + 1 tokens
DraftTree adaptive_tree(const NgramTable& table, const TreeShape& shape);

}  // namespace edgedraft
