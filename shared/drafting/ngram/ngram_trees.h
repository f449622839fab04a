#pragma once

#include "shared/drafting/ngram/ngram_table.h"
#include "shared/speculative/draft_tree.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// Trees that continue a text with what followed the same tokens in it before.
//
// Scores are log-probabilities by one rule, so that they stand beside a network's: behind a context
// of m tokens that stood there `total` times, `count` of them before this token, the token has the
// probability count / (total + escape(m)). The escape is what has not been seen yet, in units of
// occurrences, as in PPM; it falls with the length of the match, since longer runs come again more
// faithfully.

// Prompt lookup: finds the longest earlier run of up to three tokens that the text ends with, the
// earliest one with a whole continuation behind it, and copies up to ten tokens. With a breadth
// above 1 the next runs whose continuations begin otherwise are copied, too.
//
// Source    Prompt Lookup Decoding as in Spec-Bench: match 3, 2, 1, copy 10
DraftTree lookup_tree(const NgramTable& table, const TreeShape& shape);

// Adaptive n-grams: below each node stand the likeliest tokens behind the longest context known,
// backing off to shorter ones; the best nodes are grown first. With a breadth of 1 it is a chain.
//
// Source    ANPD, with runs of up to NgramTable::kOrderMax + 1 tokens
DraftTree adaptive_tree(const NgramTable& table, const TreeShape& shape);

}  // namespace edgedraft
