#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shared/drafting/drafter.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// Several drafters on one tree: each grows its own, and the best nodes of all by score are
// proposed. The first receives the activations and writes while the server is away.
class MergedDrafter final : public Drafter {
 public:
  // Requires  at least two drafters without tokens; only the first takes activations
  explicit MergedDrafter(std::vector<std::unique_ptr<Drafter>> drafters);

  std::uint32_t token_count() const override { return parts_.front().drafter->token_count(); }
  void append(std::span<const std::uint32_t> tokens) override;
  void truncate(std::uint32_t count) override;
  std::uint32_t activation_cols() const override {
    return parts_.front().drafter->activation_cols();
  }
  void add_activations(std::uint32_t first, std::span<const float> rows) override {
    parts_.front().drafter->add_activations(first, rows);
  }
  void drop_activations(std::uint32_t first) override {
    parts_.front().drafter->drop_activations(first);
  }
  // Each drafter gets the whole budget. Tables are free and use neither the budget nor the growth's
  // choice.
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override { return parts_.front().drafter->next_logits(); }

 private:
  struct Part {
    std::unique_ptr<Drafter> drafter;
    // Re-rooted here as tokens arrive; the caller re-roots its own growth.
    std::optional<TreeGrowth> growth{};
  };
  std::vector<Part> parts_;
};

// A model whose drafters are merged. Its facts are those of `main`.
//
// Requires  others not empty, and none of them with a tap
std::unique_ptr<DrafterModel> merge_drafters(std::unique_ptr<DrafterModel> main,
                                             std::vector<std::unique_ptr<DrafterModel>> others);

}  // namespace edgedraft
