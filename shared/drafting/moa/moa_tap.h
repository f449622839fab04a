#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/drafting/moa/memory_projection.h"
#include "shared/drafting/moa/moa_tensors.h"
#include "shared/drafting/tap.h"
#include "shared/runtime/kv_cache.h"
#include "shared/runtime/layer.h"
#include "shared/runtime/weight_store.h"

namespace edgedraft {

// Layer self-attention: one decoder layer over a position's keys and values in all layers of the
// target, then the mean over the layers.
//
// Source    Mixture of Attentions, section 3.1; RoPE over the layer index, full mask
class LayerSelfAttention {
 public:
  LayerSelfAttention(Backend& backend, const MoaConfig& config, const MoaTensors& tensors);

  // Positions per call.
  std::uint32_t rows_max() const { return kRowsMax; }

  // y[i] = m[slots[i]] of the target's cache.
  // Shapes    slots [n], 1 <= n <= rows_max(); y [n, 2 * target kv_cols]
  void mean(const KvCache& target, std::span<const std::uint32_t> slots, const Matrix& y);

 private:
  static constexpr std::uint32_t kRowsMax = 64;

  Backend& backend_;
  std::uint32_t layer_count_;
  HeadShape target_heads_;
  RopeStyle target_style_;
  WeightStore store_;
  OwnedMatrix cos_sin_;
  Layer layer_;
  LayerScratch scratch_;
  OwnedMatrix x_;
  std::vector<std::uint32_t> layer_indices_;  // 0..L-1, repeated per position
};

// The server's half of a Mixture-of-Attentions drafter: layer self-attention over the target's
// cache, the projection if the cut point puts it here, and the last layers' keys and values.
class MoaTap final : public Tap {
 public:
  // Requires  the bytes of `tensors` outlive the tap
  MoaTap(Backend& backend, const MoaConfig& config, const MoaTensors& tensors);

  std::span<const std::uint32_t> scale_groups() const override { return layout_.scale_groups; }
  void read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
            std::span<float> rows) override;

 private:
  // At most lsa_.rows_max() positions. Copies column blocks of `rows`.
  void read_memory(const KvCache& cache, std::uint32_t first, std::uint32_t count,
                   std::span<float> rows);
  // Reads one slot per row, from `first` on.
  void read_slots(const CacheView& from, std::uint32_t first, std::uint32_t col,
                  std::span<float> rows);
  void read_block(const CacheRows& from, std::uint32_t col, std::span<float> rows);

  Backend& backend_;
  MoaRowLayout layout_;
  std::uint32_t target_kv_cols_;
  LayerSelfAttention lsa_;
  MemoryProjection projection_;
  OwnedMatrix mean_;
  OwnedMatrix keys_;
  OwnedMatrix values_;
  std::vector<float> block_;
};

}  // namespace edgedraft
