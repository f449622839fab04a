#pragma once

#include <cstdint>
#include <span>

#include "shared/drafting/drafter.h"
#include "shared/drafting/ngram/ngram_table.h"

namespace edgedraft {

// Drafts from the conversation's own text, without a model: what was written once is often written
// again. It takes no activations and no time worth a budget.
//
// It has no distribution over the vocabulary, so it cannot write on without the server:
// next_logits() is empty, and an answer whose link breaks ends there.
//
// Requires  every tree function is a function of table and shape alone
class NgramDrafter final : public Drafter {
 public:
  using Tree = DraftTree (*)(const NgramTable& table, const TreeShape& shape);

  // Holds conversations of at most `positions_max` tokens.
  NgramDrafter(Tree tree, std::uint32_t positions_max)
      : tree_(tree), positions_max_(positions_max) {}

  std::uint32_t token_count() const override {
    return static_cast<std::uint32_t>(table_.tokens().size());
  }
  void append(std::span<const std::uint32_t> tokens) override { table_.append(tokens); }
  void truncate(std::uint32_t count) override { table_.truncate(count); }
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override { return {}; }

 private:
  Tree tree_;
  std::uint32_t positions_max_;
  NgramTable table_;
};

}  // namespace edgedraft
