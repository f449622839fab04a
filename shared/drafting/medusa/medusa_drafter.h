#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "shared/drafting/level_drafter.h"
#include "shared/drafting/medusa/medusa_tensors.h"
#include "shared/drafting/newest_rows.h"
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

// Drafts with MEDUSA's heads from the newest feature. Uses the bundle's fixed tree, cut to the
// shape, if the feature is the one before the last token and all tokens are allowed.
class MedusaDrafter final : public LevelDrafter {
 public:
  MedusaDrafter(std::shared_ptr<MedusaHeads> heads, std::uint32_t positions_max)
      : LevelDrafter(positions_max), heads_(std::move(heads)) {}

  std::uint32_t activation_cols() const override { return heads_->config().dim; }
  void add_activations(std::uint32_t first, std::span<const float> rows) override;
  void drop_activations(std::uint32_t first) override;

 protected:
  const BundleConfig& sizes() const override { return heads_->config(); }
  std::uint32_t guess_count() const override { return heads_->config().head_count; }
  std::optional<std::uint32_t> newest_before(std::uint32_t end) const override {
    return features_.newest_before(end);
  }
  Matrix guess(std::uint32_t position, std::uint32_t first, std::uint32_t count) override {
    return heads_->logits(features_.at(position), first, count);
  }
  Backend& backend() override { return heads_->backend(); }
  bool add_fixed_tree(TreeGrowth& growth, const Guesses& guesses, std::uint32_t depth_max) override;

 private:
  std::shared_ptr<MedusaHeads> heads_;
  NewestRows features_{heads_->config().head_count + 1};
};

}  // namespace edgedraft
