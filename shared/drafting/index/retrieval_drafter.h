#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shared/drafting/drafter.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/drafting/index/corpus_index.h"

namespace edgedraft {

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
