#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "shared/drafting/drafter.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/drafting/ngram/ngram_table.h"
#include "shared/runtime/memory_meter.h"
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
// text, at the earliest place with a full continuation, and copies up to ten tokens. With a breadth
// above 1 it also copies the next runs whose continuations start differently.
//
// Source    Prompt Lookup Decoding as in Spec-Bench: match 3, 2, 1, copy 10
DraftTree lookup_tree(const NgramTable& table, const TreeShape& shape);

// Adaptive n-grams: below each node are the likeliest tokens after the longest known context,
// backing off to shorter ones; the best nodes grow first. With breadth 1 it is a chain.
//
// Source    ANPD, with runs of up to NgramTable::kOrderMax + 1 tokens
DraftTree adaptive_tree(const NgramTable& table, const TreeShape& shape);

// Drafters from the conversation's own text; accept any file with the target's tokenizer.
extern const DrafterKind kLookupKind;    // pld: prompt lookup
extern const DrafterKind kAdaptiveKind;  // anpd: adaptive n-grams
extern const DrafterKind kNgramKind;     // ngram: best of both

// Drafts from the conversation's own text, without a model, since texts repeat themselves. Needs no
// activations and no budget.
//
// It has no distribution over the vocabulary, so it cannot write without the server: next_logits()
// is empty.
//
// Requires  tree functions depend on table and shape only
class NgramDrafter final : public Drafter {
 public:
  using Tree = DraftTree (*)(const NgramTable& table, const TreeShape& shape);

  // Drafts in the first `positions_max` tokens of a conversation; `meter` counts its memory.
  NgramDrafter(Tree tree, std::uint32_t positions_max,
               const std::shared_ptr<MemoryMeter>& meter = nullptr)
      : tree_(tree),
        positions_max_(positions_max),
        held_(meter, positions_max * NgramTable::kTokenBytesMax) {}

  std::uint32_t token_count() const override { return token_count_; }
  void append(std::span<const std::uint32_t> tokens) override;
  void truncate(std::uint32_t count) override;
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override { return {}; }

 private:
  Tree tree_;
  std::uint32_t positions_max_;
  HeldMemory held_;
  NgramTable table_;
  std::uint32_t token_count_ = 0;
};

}  // namespace edgedraft
