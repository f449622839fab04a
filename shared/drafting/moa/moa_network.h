#pragma once

#include <memory>
#include <vector>

#include "shared/drafting/draft_network.h"
#include "shared/drafting/moa/memory_projection.h"
#include "shared/drafting/moa/moa_tensors.h"
#include "shared/drafting/network_drafter.h"
#include "shared/runtime/kv_cache.h"
#include "shared/runtime/layer.h"
#include "shared/runtime/weight_store.h"

namespace edgedraft {

// Weights, tables and scratch shared by all sequences of a drafter. One sequence computes at a
// time.
class MoaWeights {
 public:
  // Requires  the bytes of `tensors` outlive the object
  MoaWeights(Backend& backend, const MoaConfig& config, const MoaTensors& tensors,
             std::uint32_t positions_max);

  // Bytes of caches per sequence.
  std::uint64_t sequence_bytes() const;

 private:
  friend class MoaNetwork;

  Backend& backend_;
  MoaConfig config_;
  MoaRowLayout layout_;
  std::uint32_t positions_max_;
  WeightStore store_;
  OwnedMatrix sa_cos_sin_;
  OwnedMatrix ca_cos_sin_;
  OwnedMatrix target_cos_sin_;
  Weight embedding_;
  Weight head_;
  Weight output_norm_;
  Layer sa_;
  Layer ca_;
  std::vector<Layer> target_layers_;
  MemoryProjection projection_;
  LayerScratch sa_scratch_;
  LayerScratch ca_scratch_;
  LayerScratch target_scratch_;
  std::vector<AncestorMask> causal_masks_;
  OwnedMatrix arrived_;
  OwnedMatrix x_;
  std::unique_ptr<OwnedMatrix> logits_memory_;
};

// The device's half of a Mixture-of-Attentions drafter: self-attention over tokens, cross-attention
// to a memory of target states, the target's last TLI layers and head.
//
// The memory is a set of positions: any order of arrival, holes allowed. The network itself handles
// tokens after the memory's newest position, however many are written offline.
//
// Source    Mixture of Attentions, section 3 and Algorithm 1, with exactly TLI target layers
class MoaNetwork final : public DraftNetwork {
 public:
  // Requires  the bytes of `tensors` outlive the network
  MoaNetwork(Backend& backend, const MoaConfig& config, const MoaTensors& tensors,
             std::uint32_t positions_max);
  // One of several sequences; its logits are valid until any of them computes again.
  explicit MoaNetwork(std::shared_ptr<MoaWeights> weights);

  const MoaRowLayout& row_layout() const { return m_->layout_; }
  std::uint32_t activation_cols() const { return m_->layout_.cols(); }

  // Adds the activations of positions first, first + 1, ... to the memory; drops positions from
  // position_count_max() on. With TLI layers, tokens after the memory's newest position must be
  // committed again (committed_count()). True states replace some of their states, and the others
  // were computed without these.
  // Shapes    rows [n * row_layout().cols()], packed, as a server's tap made them
  // Requires  none of the positions is in the memory
  void extend_memory(std::uint32_t first_position, std::span<const float> rows);
  // Drops the memory of positions from `position` on.
  void truncate_memory(std::uint32_t position);
  std::uint32_t memory_count() const {
    return static_cast<std::uint32_t>(memory_positions_.size());
  }

  std::uint32_t vocabulary_count() const override { return m_->config_.vocabulary_count; }
  std::span<const std::uint32_t> draft_tokens() const override { return m_->config_.draft_tokens; }
  std::uint32_t committed_count() const override { return sa_cache_.length(); }
  std::uint32_t position_count_max() const override { return m_->positions_max_; }
  void commit(std::span<const std::uint32_t> tokens) override;
  void truncate(std::uint32_t count) override;
  void expand(std::span<const GrowthNode> nodes, Leave leave = Leave::logits) override;
  Matrix logits() const override { return logits_; }
  Backend& backend() override { return backend_; }

 private:
  void forget_own_states();
  void append_memory(std::uint32_t first_position, std::span<const float> rows);
  void commit_chunk(std::span<const std::uint32_t> tokens);
  void run_self_attention(std::span<const std::uint32_t> tokens, const RowBatch& batch);
  void cross_attend(const Matrix& x, std::span<const std::uint32_t> positions);
  void run_target_layers(const Matrix& x, const RowBatch& batch);
  void leave_logits(const Matrix& x);
  // Position after the memory's newest entry.
  std::uint32_t memory_end() const { return memory_end_; }

  std::shared_ptr<MoaWeights> m_;
  Backend& backend_;

  KvCache sa_cache_;   // slot = position
  KvCache ca_memory_;  // slot = order of arrival
  // Slots 0..memory_count()-1: the target's true states in order of arrival; then own_rows_ of
  // committed tokens after the memory; then draft rows.
  KvCache tli_cache_;
  std::vector<std::uint32_t> memory_positions_;  // positions of ca_memory_'s slots
  std::uint32_t memory_end_ = 0;
  std::uint32_t own_rows_ = 0;
  std::uint32_t draft_rows_ = 0;
  Matrix logits_;
};

using MoaDrafter = MemoryDrafter<MoaNetwork>;

}  // namespace edgedraft
