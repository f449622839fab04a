#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shared/drafting/dflash/dflash_model.h"
#include "shared/drafting/level_drafter.h"
#include "shared/runtime/kv_cache.h"
#include "shared/runtime/layer.h"
#include "shared/runtime/weight_store.h"

namespace edgedraft {

// Weights, tables and scratch shared by all sequences. One sequence computes at a time.
class DflashWeights {
 public:
  // Requires  the bytes of the tensors outlive the object
  DflashWeights(Backend& backend, const DflashModel& model, std::uint32_t positions_max);

  Backend& backend() { return backend_; }
  const DflashConfig& config() const { return config_; }
  std::uint32_t dim() const { return config_.decoder.layer.dim; }
  KvCache make_cache() const { return {backend_, cache_size()}; }
  std::uint64_t sequence_bytes() const { return cache_size().bytes(); }

  // Stores keys and values of fused states at slots first, first + 1, ..., their positions.
  // Shapes    rows [n * dim()], 1 <= n <= kMaskRowsMax
  void store_context(const KvCache& cache, std::uint32_t first, std::span<const float> rows);

  // A block after the context in slots context_first..first - 1.
  struct Block {
    std::uint32_t context_first;
    std::uint32_t first;                    // position of the first token
    std::span<const std::uint32_t> tokens;  // known ones; masks follow
  };
  // Logits of the masks, one row each; valid until the next call. Overwrites the block's slots.
  // Shapes    result [block_size - tokens, head_rows]
  // Requires  1 <= tokens < block_size
  Matrix logits(const KvCache& cache, const Block& block);

 private:
  KvCache::Size cache_size() const;

  Backend& backend_;
  DflashConfig config_;
  std::uint32_t slots_;
  WeightStore store_;
  OwnedMatrix cos_sin_;
  Weight embedding_;
  Weight head_;
  Weight output_norm_;
  std::vector<Layer> layers_;
  LayerScratch scratch_;
  OwnedMatrix x_;
  OwnedMatrix logits_;
  std::vector<AncestorMask> masks_;  // of a block's rows
  std::vector<AncestorMask> window_masks_;
};

// Drafts with one pass over a block, which begins after the newest fused state: its first tokens
// are known, and the others are masks. Context before a gap in the states is not seen, since a long
// prompt's states arrive newest first.
class DflashDrafter final : public LevelDrafter {
 public:
  DflashDrafter(std::shared_ptr<DflashWeights> weights, std::uint32_t positions_max);

  void append(std::span<const std::uint32_t> tokens) override;
  void truncate(std::uint32_t count) override;
  std::uint32_t activation_cols() const override { return weights_->dim(); }
  void add_activations(std::uint32_t first, std::span<const float> rows) override;
  void drop_activations(std::uint32_t first) override;
  // Stores states first.
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;

 protected:
  const BundleConfig& sizes() const override { return weights_->config(); }
  std::uint32_t guess_count() const override { return weights_->config().block_size - 1; }
  std::optional<std::uint32_t> newest_before(std::uint32_t end) const override;
  Matrix guess(std::uint32_t position, std::uint32_t first, std::uint32_t count) override;
  Backend& backend() override { return weights_->backend(); }

 private:
  // Whether states wait that the tokens have passed.
  bool has_waiting() const;
  // Stores the first of them, at most kMaskRowsMax.
  void store_waiting();

  std::shared_ptr<DflashWeights> weights_;
  KvCache cache_;  // slot = position
  std::vector<std::uint32_t> tokens_;
  // Rows by position. A block's slots may hold later positions, so those wait for the tokens.
  std::map<std::uint32_t, std::vector<float>> waiting_;
  std::vector<bool> is_stored_;  // by position
};

}  // namespace edgedraft
