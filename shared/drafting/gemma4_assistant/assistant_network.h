#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shared/drafting/draft_network.h"
#include "shared/drafting/gemma4_assistant/assistant_model.h"
#include "shared/drafting/network_drafter.h"
#include "shared/drafting/tree_features.h"
#include "shared/runtime/kv_cache.h"
#include "shared/runtime/layer.h"
#include "shared/runtime/weight_store.h"

namespace edgedraft {

// Weights, tables and scratch shared by all sequences of a drafter. One sequence computes at a
// time.
class AssistantWeights {
 public:
  // Throws DeviceError if out of memory, or if the backend's attention takes no heads that wide.
  //
  // Requires  the bytes of the model's tensors outlive the object
  AssistantWeights(Backend& backend, const AssistantModel& model, std::uint32_t positions_max);

  // Bytes per sequence: the target's keys and values, and features.
  std::uint64_t sequence_bytes() const;

 private:
  friend class AssistantNetwork;

  Layer make_layer(std::uint32_t block);
  KvCache::Size cache_size() const;
  // Rows of features: one of zeros, then one per position.
  std::uint32_t feature_rows() const { return positions_max_ + 1; }

  Backend& backend_;
  AssistantModel model_;
  std::uint32_t positions_max_;
  std::uint32_t row_cols_;
  WeightStore store_;
  std::optional<OwnedMatrix> cos_sin_;
  std::optional<OwnedMatrix> window_cos_sin_;
  Weight embedding_;
  Weight head_;
  Weight output_norm_;
  Weight fc_embedding_;
  Weight fc_feature_;
  Weight fc_next_;
  std::vector<Weight> key_norms_;  // of the memories; absent if keys arrive
  std::vector<Layer> layers_;
  LayerScratch scratch_;
  OwnedMatrix arrived_;
  OwnedMatrix wide_;  // embeddings, or features of the target's width
  OwnedMatrix x_;
  OwnedMatrix normed_;
  OwnedMatrix next_;
  OwnedMatrix zeros_;
  std::unique_ptr<OwnedMatrix> logits_memory_;
};

// The device's half of an assistant. Each row reads a token and the feature before it, attends to
// the target's keys and values, and gives logits and the next feature. Features here are products
// of the first projection, as the tap sends them.
//
// Rows attend to the target's positions alone, so they all have the position after the newest one
// that has arrived, as in training, however many tokens follow it. Positions before a missing one
// are not attended to: a long prompt's rows arrive newest first.
//
// Tokens without a feature of the target are read one after another, as drafts are, but at most
// 2 * kOwnWindow of them: each costs a pass.
//
// Source    Gemma 4 assistants in transformers and llama.cpp (gemma4-assistant)
class AssistantNetwork final : public DraftNetwork {
 public:
  // Requires  the bytes of the model's tensors outlive the network
  AssistantNetwork(Backend& backend, const AssistantModel& model, std::uint32_t positions_max);
  // One of several sequences; its logits are valid until any of them computes again.
  explicit AssistantNetwork(std::shared_ptr<AssistantWeights> weights);

  std::uint32_t activation_cols() const { return m_->row_cols_; }
  // Adds the rows of positions first, first + 1, ..., which may be ahead of the tokens. Drops
  // positions from position_count_max() on.
  // Shapes    rows [n * activation_cols()], packed, as a server's tap made them
  void extend_memory(std::uint32_t first_position, std::span<const float> rows);
  // Drops the rows of positions from `position` on.
  void truncate_memory(std::uint32_t position);

  std::uint32_t vocabulary_count() const override { return m_->model_.sizes.vocabulary_count; }
  std::span<const std::uint32_t> draft_tokens() const override {
    return m_->model_.sizes.draft_tokens;
  }
  std::uint32_t committed_count() const override {
    return static_cast<std::uint32_t>(tokens_.size());
  }
  std::uint32_t position_count_max() const override { return m_->positions_max_; }
  void commit(std::span<const std::uint32_t> tokens) override;
  void truncate(std::uint32_t count) override;
  void expand(std::span<const GrowthNode> nodes, Leave leave = Leave::logits) override;
  Matrix logits() const override { return logits_; }
  Backend& backend() override { return backend_; }

 private:
  static constexpr std::uint32_t kOwnWindow = 64;

  // Adds at most kMaskRowsMax rows.
  void store_rows(std::uint32_t first_position, std::span<const float> rows);
  // Position after the newest of the target's rows before the last token.
  std::uint32_t memory_end() const;
  // Moves the memory's end. Own features after another end are stale.
  void attend_before(std::uint32_t end);
  // Feature of the token at a position, or of the start at -1.
  Matrix feature(std::int64_t position) const;
  // x_ holds features. Leaves the final norm's rows in normed_, and the next features in next_.
  void run(std::span<const std::uint32_t> tokens);
  void leave_logits(std::uint32_t rows);

  std::shared_ptr<AssistantWeights> m_;
  Backend& backend_;

  std::vector<std::uint32_t> tokens_;
  std::vector<bool> has_row_;  // by position
  KvCache cache_;              // slot = position; the last slot stays zero
  OwnedMatrix features_;       // true if has_row_, else predicted up to own_end_
  std::uint32_t end_ = 0;      // rows attend to positions begin_..end_ - 1
  std::uint32_t begin_ = 0;
  // Positions own_first_..own_end_ - 1 have predicted features.
  std::uint32_t own_first_ = 0;
  std::uint32_t own_end_ = 0;
  TreeFeatures tree_;
  Matrix logits_;
};

using AssistantDrafter = MemoryDrafter<AssistantNetwork>;

}  // namespace edgedraft
