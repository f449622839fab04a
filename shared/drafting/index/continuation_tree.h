#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/drafting/index/corpus_index.h"
#include "shared/speculative/draft_tree.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// At most so many tokens of a context are looked up, and so many are copied behind it.
inline constexpr std::uint32_t kMatchMax = 16;
inline constexpr std::uint32_t kCopiedMax = 10;
// So many of the places where a match stands are looked at, evenly spread over their order. Those
// that go on alike are side by side, so any share of what follows is right to one part in this
// number, and what has that share or more is never missed.
inline constexpr std::uint32_t kPlacesMax = 64;
static_assert(kMatchMax + kCopiedMax <= kIndexOrder);

// What follows a match, as a trie: nodes behind their parents, the first of them being the match
// itself.
struct ContinuationTrie {
  struct Node {
    std::uint32_t token;
    std::uint32_t count;        // of the places that were looked at
    std::uint32_t child = 0;    // the newest; 0 if there is none
    std::uint32_t sibling = 0;  // the next older one; 0 if there is none
  };
  std::vector<Node> nodes;
};

// At most `length_max` tokens deep.
ContinuationTrie continuations(const CorpusIndex& index, const CorpusIndex::Match& match,
                               std::uint32_t length_max);

// A tree that continues a context with what followed its longest end in the corpus, the likeliest
// paths first, with scores by the rule of n-grams (ngram_trees.h). A public text is not the
// conversation's own, so what has not been seen yet weighs more.
//
// Source    REST (He and others, 2023), which looks at up to 5,000 places, takes every prefix of
//           what follows and keeps the 64 most frequent; SPECTRA's retrieval module
DraftTree continuation_tree(const CorpusIndex& index, std::span<const std::uint32_t> context,
                            const TreeShape& shape);

}  // namespace edgedraft
