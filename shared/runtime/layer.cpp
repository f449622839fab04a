#include "shared/runtime/layer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

constexpr std::uint32_t kTablePart = 1024;  // positions

}  // namespace

LayerScratch::LayerScratch(Backend& backend, const LayerShape& shape, std::uint32_t rows_max)
    : normed(backend, rows_max, shape.dim),
      q(backend, rows_max, shape.heads.query_cols()),
      k(backend, rows_max, shape.heads.kv_cols()),
      v(backend, rows_max, shape.heads.kv_cols()),
      attended(backend, rows_max, shape.heads.query_cols()),
      gate(backend, rows_max, shape.ffn_dim),
      up(backend, rows_max, shape.ffn_dim) {}

std::vector<AncestorMask> causal_masks(std::uint32_t count) {
  EDGEDRAFT_CHECK(count <= kMaskRowsMax);
  std::vector<AncestorMask> masks(count);
  for (std::uint32_t row = 0; row < count; ++row) {
    if (row > 0) masks[row] = masks[row - 1];
    masks[row].set(row);
  }
  return masks;
}

void self_attention(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                    const RowBatch& batch, const CacheView& keys, const CacheView& values) {
  const SequenceBatch one{.batch = batch, .keys = keys, .values = values};
  self_attention(backend, layer, scratch, x, std::span(&one, 1));
}

void self_attention(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                    std::span<const SequenceBatch> sequences) {
  const LayerWeights& w = layer.weights;
  const Matrix input = w.attn_norm ? scratch.normed.rows(x.rows) : x;
  const Matrix q = scratch.q.rows(x.rows);
  const Matrix k = scratch.k.rows(x.rows);
  const Matrix v = scratch.v.rows(x.rows);
  const Matrix attended = scratch.attended.rows(x.rows);

  const std::array products{MatmulOp{.x = input, .weight = w.wq, .bias = w.bq, .y = q},
                            MatmulOp{.x = input, .weight = w.wk, .bias = w.bk, .y = k},
                            MatmulOp{.x = input, .weight = w.wv, .bias = w.bv, .y = v}};
  if (w.attn_norm) {
    backend.norm_matmuls(
        {.x = x, .weight = w.attn_norm, .y = input, .epsilon = layer.shape.rms_epsilon}, products);
  } else {
    backend.matmuls(products);
  }
  scratch.positions.clear();
  scratch.stored.clear();
  scratch.attentions.clear();
  std::uint32_t first = 0;
  for (const SequenceBatch& sequence : sequences) {
    const RowBatch& batch = sequence.batch;
    const auto own = [&](const Matrix& m) { return m.row_range(first, batch.count()); };
    scratch.positions.insert(scratch.positions.end(), batch.positions.begin(),
                             batch.positions.end());
    scratch.stored.push_back({.rows = batch.count(),
                              .keys = sequence.keys,
                              .values = sequence.values,
                              .first = batch.first_slot});
    scratch.attentions.push_back({.q = own(q),
                                  .keys = sequence.keys,
                                  .values = sequence.values,
                                  .prefix = batch.prefix,
                                  .masks = batch.masks,
                                  .heads = layer.shape.heads,
                                  .y = own(attended),
                                  .scale = layer.shape.heads.score_scale()});
    first += batch.count();
  }
  EDGEDRAFT_CHECK(first == x.rows);
  backend.rope_store({.q = q,
                      .k = k,
                      .v = v,
                      .positions = scratch.positions,
                      .cos_sin = layer.cos_sin,
                      .head_dim = layer.shape.heads.head_dim,
                      .rotated = layer.shape.heads.head_dim,
                      .style = layer.rope_style,
                      .sequences = scratch.stored});
  backend.attentions(scratch.attentions);
  backend.matmul({.x = attended, .weight = w.wo, .bias = {}, .y = x, .into = Into::accumulate});
}

void feed_forward(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x) {
  const LayerWeights& w = layer.weights;
  const Matrix normed = scratch.normed.rows(x.rows);
  const Matrix gate = scratch.gate.rows(x.rows);
  const Matrix up = scratch.up.rows(x.rows);
  backend.norm_matmuls(
      {.x = x, .weight = w.ffn_norm, .y = normed, .epsilon = layer.shape.rms_epsilon},
      std::array{MatmulOp{.x = normed, .weight = w.gate, .bias = {}, .y = gate},
                 MatmulOp{.x = normed, .weight = w.up, .bias = {}, .y = up}});
  backend.gate_matmul({.gate = gate, .up = up, .y = gate, .activation = Activation::silu},
                      {.x = gate, .weight = w.down, .bias = {}, .y = x, .into = Into::accumulate});
}

OwnedMatrix make_rope_table(Backend& backend, const RopeConfig& rope, std::uint32_t head_dim,
                            std::uint32_t position_count) {
  OwnedMatrix table(backend, position_count, head_dim);
  if (!backend.keeps_numbers()) return table;
  // float32 frequencies and angles, as in the reference implementations, to agree at long
  // positions.
  const std::uint32_t half = head_dim / 2;
  std::vector<float> frequencies(half);
  for (std::uint32_t i = 0; i < half; ++i) {
    frequencies[i] =
        1.0f / std::pow(rope.theta, static_cast<float>(2 * i) / static_cast<float>(head_dim));
    if (!rope.frequency_divisors.empty()) frequencies[i] /= rope.frequency_divisors[i];
  }
  // The context length comes from files and options, so bound the memory on the host.
  std::vector<float> part(std::size_t{std::min(kTablePart, position_count)} * head_dim);
  for (std::uint32_t first = 0; first < position_count; first += kTablePart) {
    const std::uint32_t count = std::min(kTablePart, position_count - first);
    for (std::uint32_t p = 0; p < count; ++p) {
      float* row = &part[std::size_t{p} * head_dim];
      for (std::uint32_t i = 0; i < half; ++i) {
        const float angle = static_cast<float>(first + p) * frequencies[i];
        row[i] = std::cos(angle);
        row[half + i] = std::sin(angle);
      }
    }
    backend.write(table.all().row_range(first, count),
                  std::span(part).first(std::size_t{count} * head_dim));
  }
  return table;
}

}  // namespace edgedraft
