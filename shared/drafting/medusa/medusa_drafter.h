#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "shared/drafting/drafter.h"
#include "shared/drafting/medusa/medusa_tensors.h"
#include "shared/runtime/layer.h"
#include "shared/runtime/weight_store.h"

namespace edgedraft {

// MEDUSA's heads: each guesses from one feature f of the target. Head k, counted from 1, guesses
// the token k + 1 positions after f: head_k(f) = W2 (f + silu(W1_k f + b_k)), with W2 the target's
// head or its own.
//
// Source    MEDUSA, section 3.1
class MedusaHeads {
 public:
  // Requires  the bytes of `tensors` outlive the object
  MedusaHeads(Backend& backend, const MedusaConfig& config, const MedusaTensors& tensors);

  const MedusaConfig& config() const { return config_; }
  Backend& backend() { return backend_; }

  // Logits of heads first, first + 1, ..., counted from 0, one row each; valid until the next call.
  // Shapes    feature [config().dim]; result [count, config().head_rows()]
  Matrix logits(std::span<const float> feature, std::uint32_t first, std::uint32_t count);

 private:
  struct Head {
    Weight weight;
    Weight bias;
    Weight output;  // absent if shared
  };

  Backend& backend_;
  MedusaConfig config_;
  WeightStore store_;
  std::vector<Head> heads_;
  Weight output_;
  OwnedMatrix feature_;
  OwnedMatrix inner_;
  OwnedMatrix twos_;
  OwnedMatrix pairs_;
  OwnedMatrix hidden_;
  OwnedMatrix logits_;
};

// Drafts with MEDUSA's heads from the newest feature. Heads reach a fixed number of positions after
// it; those whose token is already known are skipped. So a lagging feature makes the tree
// shallower, and without one in reach nothing is drafted.
//
// Uses the bundle's fixed tree, cut to the shape, if the feature is the one before the last token
// and all tokens are allowed. Otherwise grows a tree by the heads' probabilities, with the same
// guesses below every node of a level. It cannot write alone: its guesses ignore its own output.
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
  // Guesses of the heads for the levels below the root, likeliest first.
  struct Guesses {
    std::uint32_t per_level = 0;
    std::vector<std::uint32_t> tokens;
    std::vector<float> log_probs;
  };

  // Newest feature before the last token; features_.end() if there is none.
  std::map<std::uint32_t, std::vector<float>>::const_iterator newest() const;
  // Number of heads whose tokens are already known; all without a feature.
  std::uint32_t passed_heads() const;
  void make_guesses(std::uint32_t per_level);
  bool grow_by_level(TreeGrowth& growth, const GrowthBudget& budget);
  void add_fixed_tree(TreeGrowth& growth, std::uint32_t depth_max);
  // Invalidates trees grown from the previous guesses.
  void forget_guesses();

  std::shared_ptr<MedusaHeads> heads_;
  std::uint32_t positions_max_;
  std::uint32_t token_count_ = 0;
  // By position; only the newest, since older ones are out of the heads' reach.
  std::map<std::uint32_t, std::vector<float>> features_;
  Guesses guesses_;
  std::shared_ptr<const void> made_from_;  // identity of guesses_; null: not computed
};

}  // namespace edgedraft
