#include "shared/drafting/moa/lsa.h"

#include <array>

#include "shared/base/check.h"

namespace edgedraft {

LayerSelfAttention::LayerSelfAttention(Backend& backend, const MoaConfig& config,
                                       const MoaTensors& tensors)
    : backend_(backend),
      layer_count_(config.target_layer_count),
      target_heads_(config.target_layer.heads),
      target_style_(config.target_rope.style),
      store_(backend),
      cos_sin_(make_rope_table(backend, config.lsa_rope, config.layer_self_attention.heads.head_dim,
                               config.target_layer_count)),
      layer_{.shape = config.layer_self_attention,
             .weights = store_.add_layer(tensors.layer_self_attention),
             .rope_style = config.lsa_rope.style,
             .cos_sin = cos_sin_.all()},
      scratch_(backend, config.layer_self_attention, kRowsMax * config.target_layer_count),
      x_(backend, kRowsMax * config.target_layer_count, config.layer_self_attention.dim) {
  for (std::uint32_t i = 0; i < kRowsMax * layer_count_; ++i) {
    layer_indices_.push_back(i % layer_count_);
  }
}

void LayerSelfAttention::mean(const KvCache& target, std::span<const std::uint32_t> slots,
                              const Matrix& y) {
  EDGEDRAFT_CHECK(!slots.empty() && slots.size() <= kRowsMax);
  EDGEDRAFT_CHECK(target.keys().size() == layer_count_);
  const std::uint32_t rows = static_cast<std::uint32_t>(slots.size()) * layer_count_;
  const Matrix x = x_.rows(rows);
  const Matrix normed = scratch_.normed.rows(rows);
  const Matrix q = scratch_.q.rows(rows);
  const Matrix k = scratch_.k.rows(rows);
  const Matrix v = scratch_.v.rows(rows);
  const Matrix attended = scratch_.attended.rows(rows);
  const LayerWeights& w = layer_.weights;

  backend_.gather_layers({.keys = target.keys(),
                          .values = target.values(),
                          .slots = slots,
                          .heads = target_heads_,
                          .style = target_style_,
                          .y = x});
  backend_.rms_norm(
      {.x = x, .weight = w.attn_norm, .y = normed, .epsilon = layer_.shape.rms_epsilon});
  backend_.matmuls(std::array{MatmulOp{.x = normed, .weight = w.wq, .bias = w.bq, .y = q},
                              MatmulOp{.x = normed, .weight = w.wk, .bias = w.bk, .y = k},
                              MatmulOp{.x = normed, .weight = w.wv, .bias = w.bv, .y = v}});
  for (const Matrix& rotated : {q, k}) {
    backend_.rope({.x = rotated,
                   .positions = std::span(layer_indices_).first(rows),
                   .cos_sin = layer_.cos_sin,
                   .head_dim = layer_.shape.heads.head_dim,
                   .style = layer_.rope_style});
  }
  backend_.group_attention({.q = q,
                            .k = k,
                            .v = v,
                            .group_rows = layer_count_,
                            .heads = layer_.shape.heads,
                            .y = attended});
  backend_.matmul(
      {.x = attended, .weight = w.wo, .bias = {}, .y = x, .into = MatmulOp::Into::accumulate});
  feed_forward(backend_, layer_, scratch_, x);
  backend_.group_mean({.x = x, .group_rows = layer_count_, .y = y});
}

}  // namespace edgedraft
