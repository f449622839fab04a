#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shared/model/config.h"
#include "shared/runtime/backend.h"

namespace edgedraft {

// A matrix with its own memory, allocated once; rows(n) is its first n rows.
class OwnedMatrix {
 public:
  OwnedMatrix(Backend& backend, std::uint32_t rows, std::uint32_t cols)
      : memory_(backend.allocate(std::uint64_t{rows} * cols)),
        all_{.buffer = memory_.get(), .offset = 0, .rows = rows, .cols = cols, .stride = cols} {}

  Matrix rows(std::uint32_t count) const { return all_.row_range(0, count); }
  const Matrix& all() const { return all_; }

 private:
  std::unique_ptr<Buffer> memory_;
  Matrix all_;
};

// Weights of one pre-norm decoder layer; biases are absent if the model has none.
struct LayerWeights {
  Weight attn_norm;  // [1, dim] or absent: attention reads x itself
  Weight wq;         // [query_cols, dim]
  Weight wk;         // [kv_cols, dim]
  Weight wv;         // [kv_cols, dim]
  Weight wo;         // [dim, query_cols]
  Weight bq;         // [1, query_cols] or absent
  Weight bk;         // [1, kv_cols] or absent
  Weight bv;         // [1, kv_cols] or absent
  Weight ffn_norm;   // [1, dim]
  Weight gate;       // [ffn_dim, dim]
  Weight up;         // [ffn_dim, dim]
  Weight down;       // [dim, ffn_dim]
};

// A layer ready to run. Non-owning.
struct Layer {
  LayerShape shape;
  LayerWeights weights;
  RopeStyle rope_style = RopeStyle::halves;
  Matrix cos_sin;  // RopeOp
};

// Slots and visibility of a call's rows. Row r is stored at slot first_slot + r; it sees slots
// below `prefix` and slot prefix + j for each j of masks[r].
struct RowBatch {
  std::span<const std::uint32_t> positions;
  std::uint32_t prefix;
  std::uint32_t first_slot;
  std::span<const AncestorMask> masks;

  std::uint32_t count() const { return static_cast<std::uint32_t>(positions.size()); }
};

// Causal masks of `count` rows: each sees itself and the rows before it.
std::vector<AncestorMask> causal_masks(std::uint32_t count);

// Intermediate rows, allocated once for the widest call.
class LayerScratch {
 public:
  LayerScratch(Backend& backend, const LayerShape& shape, std::uint32_t rows_max);

  OwnedMatrix normed;
  OwnedMatrix q;
  OwnedMatrix k;
  OwnedMatrix v;
  OwnedMatrix attended;
  OwnedMatrix gate;
  OwnedMatrix up;

  // Per-call lists, kept so that calls do not allocate.
  std::vector<std::uint32_t> positions;
  std::vector<RopeStoreOp::Sequence> stored;
  std::vector<StoreOp> stores;
  std::vector<AttentionOp> attentions;
};

// Rows of one sequence and the cache for their keys and values.
// Shapes    keys, values [slots, kv_cols]
struct SequenceBatch {
  RowBatch batch;
  CacheView keys;
  CacheView values;
};

// x += Wo Attention(RMSNorm(x)); stores the rows' keys and values in their caches. Rows of the
// sequences are consecutive in x; sequences do not see each other.
// Shapes    x [sum of the batches' counts, dim]
void self_attention(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                    std::span<const SequenceBatch> sequences);
// As above, for one sequence.
void self_attention(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                    const RowBatch& batch, const CacheView& keys, const CacheView& values);

// x += Wdown(silu(Wgate n) * Wup n), n = RMSNorm(x)
void feed_forward(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x);

// Cosines and sines for every position, in the layout of RopeOp.
// Source    RoFormer, eq. 34; divisors as Llama 3's frequency scaling
OwnedMatrix make_rope_table(Backend& backend, const RopeConfig& rope, std::uint32_t head_dim,
                            std::uint32_t position_count);

}  // namespace edgedraft
