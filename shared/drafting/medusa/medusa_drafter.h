#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "shared/drafting/drafter.h"
#include "shared/drafting/medusa/medusa_heads.h"

namespace edgedraft {

// Drafts with MEDUSA's heads from the newest feature that has come. Heads reach a fixed number of
// positions behind it: those whose token is known by now are passed over, so a feature that lags
// makes the tree less deep, and without one within reach nothing is drafted.
//
// The tree is the bundle's fixed one, cut to the wanted shape, if the feature is that before the
// last token and any token may follow; else it is grown by the heads' probabilities, the same
// guesses below every node of a level. On its own it cannot write: what it would write does not
// depend on what it has written.
class MedusaDrafter final : public Drafter {
 public:
  MedusaDrafter(std::shared_ptr<MedusaHeads> heads, std::uint32_t positions_max)
      : heads_(std::move(heads)), positions_max_(positions_max) {}

  std::uint32_t token_count() const override { return token_count_; }
  void append(std::span<const std::uint32_t> tokens) override;
  void truncate(std::uint32_t count) override;
  std::uint32_t activation_cols() const override { return heads_->config().dim; }
  void add_activations(std::uint32_t first, std::span<const float> rows) override;
  void drop_activations(std::uint32_t first) override;
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override { return {}; }

 private:
  // What the heads say of the levels below the root, likeliest first.
  struct Guesses {
    std::uint32_t per_level = 0;
    std::vector<std::uint32_t> tokens;
    std::vector<float> log_probs;
  };

  // The newest feature of a position before the last token; features_.end() if there is none.
  std::map<std::uint32_t, std::vector<float>>::const_iterator newest() const;
  // Heads whose tokens are known by now; all of them without a feature.
  std::uint32_t passed_heads() const;
  void make_guesses(std::uint32_t per_level);
  bool grow_by_level(TreeGrowth& growth, const GrowthBudget& budget);
  void add_fixed_tree(TreeGrowth& growth, std::uint32_t depth_max);
  // Trees that were grown from what was known before are not to be gone on with.
  void forget_guesses();

  std::shared_ptr<MedusaHeads> heads_;
  std::uint32_t positions_max_;
  std::uint32_t token_count_ = 0;
  // By position; the newest alone, as older ones are out of the heads' reach.
  std::map<std::uint32_t, std::vector<float>> features_;
  Guesses guesses_;
  std::shared_ptr<const void> made_from_;  // names what guesses_ are made from; null: not made
};

}  // namespace edgedraft
