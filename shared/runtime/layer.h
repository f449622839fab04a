#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/model/config.h"
#include "shared/runtime/backend.h"
#include "shared/runtime/scratch.h"

namespace edgedraft {

// One pre-norm decoder layer's weights on a backend; biases are absent where the model has none.
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

// A layer ready to run. Not an owner.
struct Layer {
  LayerShape shape;
  LayerWeights weights;
  RopeStyle rope_style = RopeStyle::halves;
  Matrix cos_sin;  // RopeOp
};

// Where the rows of a call stand. Row r is stored at slot first_slot + r; it sees slots below
// `prefix` and slot prefix + j for each j of masks[r].
struct RowBatch {
  std::span<const std::uint32_t> positions;
  std::uint32_t prefix;
  std::uint32_t first_slot;
  std::span<const AncestorMask> masks;

  std::uint32_t count() const { return static_cast<std::uint32_t>(positions.size()); }
};

// Row masks of `count` tokens in a row: each sees itself and those before it.
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

  // What a call's sequences do, kept here so that calls do not allocate.
  std::vector<std::uint32_t> positions;
  std::vector<RopeStoreOp::Sequence> stored;
  std::vector<StoreOp> stores;
  std::vector<AttentionOp> attentions;
};

// Rows of one sequence and the cache that they are stored in.
// Shapes    keys, values [slots, kv_cols]
struct SequenceBatch {
  RowBatch batch;
  CacheView keys;
  CacheView values;
};

// x += Wo Attention(RMSNorm(x)); the rows' keys and values are stored in their caches. The rows of
// the sequences follow each other in x and do not see each other.
// Shapes    x [sum of the batches' counts, dim]
void self_attention(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                    std::span<const SequenceBatch> sequences);
// The same for one sequence.
void self_attention(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                    const RowBatch& batch, const CacheView& keys, const CacheView& values);

// x += Wdown(silu(Wgate n) * Wup n), n = RMSNorm(x)
void feed_forward(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x);

// Cosines and sines of every position's angles, as RopeOp wants them.
// Source    RoFormer, eq. 34; divisors as Llama 3's frequency scaling
OwnedMatrix make_rope_table(Backend& backend, const RopeConfig& rope, std::uint32_t head_dim,
                            std::uint32_t position_count);

}  // namespace edgedraft
