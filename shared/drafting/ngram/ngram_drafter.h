#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "shared/drafting/drafter.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/drafting/ngram/ngram_table.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft {

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
