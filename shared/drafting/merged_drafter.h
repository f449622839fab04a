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

// Several drafters on one tree: each grows its own, and the best nodes of all by score are what is
// proposed. The first is the one that is sent activations and that writes while the server is away.
class MergedDrafter final : public Drafter {
 public:
  // Requires  two drafters or more, which have seen no token; none but the first takes activations
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
  // Each drafter has the whole budget; tables, which cost nothing, do not touch it, nor do they ask
  // for the growth's choice.
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override { return parts_.front().drafter->next_logits(); }

 private:
  struct Part {
    std::unique_ptr<Drafter> drafter;
    // Follows the tokens by itself, as the caller's growth is re-rooted by the caller.
    std::optional<TreeGrowth> growth{};
  };
  std::vector<Part> parts_;
};

// A model whose drafters are merged ones. All it says of itself is what `main` says.
//
// Requires  others not empty, and none of them with a tap
std::unique_ptr<DrafterModel> merge_drafters(std::unique_ptr<DrafterModel> main,
                                             std::vector<std::unique_ptr<DrafterModel>> others);

}  // namespace edgedraft
