#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shared/drafting/drafter.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/drafting/index/corpus_index.h"
#include "shared/speculative/draft_tree.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// Maximum tokens of a context to look up, and maximum tokens to copy after it.
inline constexpr std::uint32_t kMatchMax = 16;
inline constexpr std::uint32_t kCopiedMax = 10;
// Places of a match to examine, evenly spread over their order. Equal continuations are adjacent,
// so any continuation's share is correct to 1 / kPlacesMax, and none with that share or more is
// missed.
inline constexpr std::uint32_t kPlacesMax = 64;
static_assert(kMatchMax + kCopiedMax <= kIndexOrder);

// Continuations of a match as a trie: nodes after their parents, starting with the match itself.
struct ContinuationTrie {
  struct Node {
    std::uint32_t token;
    std::uint32_t count;        // of the examined places
    std::uint32_t child = 0;    // the newest; 0: none
    std::uint32_t sibling = 0;  // the next older one; 0: none
  };
  std::vector<Node> nodes;
};

// At most `length_max` tokens deep.
ContinuationTrie continuations(const CorpusIndex& index, const CorpusIndex::Match& match,
                               std::uint32_t length_max);

// Tree of the tokens that followed the context's longest suffix found in the corpus, likeliest
// paths first, with scores as for n-grams (ngram_drafter.h). A public text is not the
// conversation's own, so unseen tokens weigh more.
//
// Source    REST (He et al., 2023), which examines up to 5,000 places, takes every prefix of the
//           continuations and keeps the 64 most frequent; SPECTRA's retrieval module
DraftTree continuation_tree(const CorpusIndex& index, std::span<const std::uint32_t> context,
                            const TreeShape& shape);

// retrieval: drafts from indexes of public texts; accepts any file with the target's tokenizer.
extern const DrafterKind kRetrievalKind;

using SharedIndexes = std::shared_ptr<const std::vector<CorpusIndex>>;

// Drafts continuations found in public texts. Needs no activations and no budget. Like other tables
// it cannot write without the server.
class RetrievalDrafter final : public Drafter {
 public:
  // Holds conversations of at most `positions_max` tokens.
  RetrievalDrafter(SharedIndexes indexes, std::uint32_t positions_max)
      : indexes_(std::move(indexes)), positions_max_(positions_max) {}

  std::uint32_t token_count() const override { return static_cast<std::uint32_t>(tokens_.size()); }
  void append(std::span<const std::uint32_t> tokens) override;
  void truncate(std::uint32_t count) override;
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override { return {}; }

 private:
  SharedIndexes indexes_;
  std::uint32_t positions_max_;
  std::vector<std::uint32_t> tokens_;
};

}  // namespace edgedraft
