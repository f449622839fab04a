#include "shared/drafting/moa/moa_tap.h"

#include <algorithm>
#include <array>
#include <numeric>

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
      layer_{.plan = {.shape = config.layer_self_attention},
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
      {.x = x, .weight = w.attn_norm, .y = normed, .epsilon = layer_.plan.shape.rms_epsilon});
  backend_.matmuls(
      std::array{MatmulOp{.x = normed, .weight = w.attn_q, .bias = w.attn_q_bias, .y = q},
                 MatmulOp{.x = normed, .weight = w.attn_k, .bias = w.attn_k_bias, .y = k},
                 MatmulOp{.x = normed, .weight = w.attn_v, .bias = w.attn_v_bias, .y = v}});
  for (const Matrix& rotated : {q, k}) {
    backend_.rope({.x = rotated,
                   .positions = std::span(layer_indices_).first(rows),
                   .cos_sin = layer_.cos_sin,
                   .head_dim = layer_.plan.shape.heads.head_dim,
                   .rotated = layer_.plan.shape.heads.head_dim,
                   .style = layer_.rope_style});
  }
  backend_.group_attention({.q = q,
                            .k = k,
                            .v = v,
                            .group_rows = layer_count_,
                            .heads = layer_.plan.shape.heads,
                            .y = attended});
  backend_.matmul(
      {.x = attended, .weight = w.attn_output, .bias = {}, .y = x, .into = Into::accumulate});
  feed_forward(backend_, layer_, scratch_, x);
  backend_.group_mean({.x = x, .group_rows = layer_count_, .y = y});
}

MoaTap::MoaTap(Backend& backend, const MoaConfig& config, const MoaTensors& tensors)
    : backend_(backend),
      layout_(moa_row_layout(config)),
      target_kv_cols_(config.target_layer.heads.kv_cols()),
      lsa_(backend, config, tensors),
      projection_(backend, config, tensors, lsa_.rows_max()),
      mean_(backend, lsa_.rows_max(), 2 * target_kv_cols_),
      keys_(backend, lsa_.rows_max(), config.cross_attention.heads.kv_cols()),
      values_(backend, lsa_.rows_max(), config.cross_attention.heads.kv_cols()) {}

void MoaTap::read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
                  std::span<float> rows) {
  const std::size_t cols = layout_.cols();
  EDGEDRAFT_CHECK(rows.size() == count * cols);
  for (std::uint32_t done = 0; done < count; done += lsa_.rows_max()) {
    const std::uint32_t chunk = std::min(lsa_.rows_max(), count - done);
    const auto chunk_rows = rows.subspan(done * cols, chunk * cols);
    read_memory(cache, first + done, chunk, chunk_rows);
    const std::size_t layer_first = cache.keys().size() - layout_.tli;
    for (std::uint32_t layer = 0; layer < layout_.tli; ++layer) {
      const std::uint32_t col = layout_.tli_first_col(layer);
      read_slots(cache.keys()[layer_first + layer], first + done, col, chunk_rows);
      read_slots(cache.values()[layer_first + layer], first + done, col + target_kv_cols_,
                 chunk_rows);
    }
  }
}

void MoaTap::read_memory(const KvCache& cache, std::uint32_t first, std::uint32_t count,
                         std::span<float> rows) {
  std::vector<std::uint32_t> slots(count);
  std::iota(slots.begin(), slots.end(), first);
  const Matrix mean = mean_.rows(count);
  lsa_.mean(cache, slots, mean);
  if (layout_.cut == CutPoint::lsa_mean) {
    read_block(mean, 0, rows);
    return;
  }
  const Matrix keys = keys_.rows(count);
  const Matrix values = values_.rows(count);
  projection_.project(mean, keys, values);
  read_block(keys, 0, rows);
  read_block(values, keys.cols, rows);
}

void MoaTap::read_slots(const CacheView& from, std::uint32_t first, std::uint32_t col,
                        std::span<float> rows) {
  while (!rows.empty()) {
    const auto left = static_cast<std::uint32_t>(rows.size() / layout_.cols());
    const CacheRows run = from.run(first, left);
    read_block(run, col, rows);
    first += run.rows;
    rows = rows.subspan(std::size_t{run.rows} * layout_.cols());
  }
}

void MoaTap::read_block(const CacheRows& from, std::uint32_t col, std::span<float> rows) {
  block_.resize(std::size_t{from.rows} * from.cols);
  backend_.read_cache(from, block_);
  for (std::uint32_t r = 0; r < from.rows; ++r) {
    std::copy_n(&block_[std::size_t{r} * from.cols], from.cols,
                &rows[std::size_t{r} * layout_.cols() + col]);
  }
}

}  // namespace edgedraft
