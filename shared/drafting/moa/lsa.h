#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/drafting/moa/moa_tensors.h"
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

}  // namespace edgedraft
