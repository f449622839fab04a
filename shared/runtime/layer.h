#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shared/model/config.h"
#include "shared/model/decoder_tensors.h"
#include "shared/runtime/backend.h"

namespace edgedraft {

// A matrix with its own memory, allocated once; rows(n) is its first n rows.
class OwnedMatrix {
 public:
  OwnedMatrix(Backend& backend, std::uint32_t rows, std::uint32_t cols)
      : memory_(backend.allocate(std::uint64_t{rows} * cols)),
        all_{.buffer = memory_.get(), .offset = 0, .rows = rows, .cols = cols, .stride = cols} {}

  Matrix rows(std::uint32_t count) const { return all_.row_range(0, count); }
  // As many packed rows of `cols`, which may be fewer than its own.
  Matrix rows(std::uint32_t count, std::uint32_t cols) const {
    return {.buffer = memory_.get(), .offset = 0, .rows = count, .cols = cols, .stride = cols};
  }
  const Matrix& all() const { return all_; }

 private:
  std::unique_ptr<Buffer> memory_;
  Matrix all_;
};

using LayerWeights = LayerParts<Weight>;

// A layer ready to run. Non-owning.
struct Layer {
  LayerPlan plan;
  LayerWeights weights;
  RopeStyle rope_style = RopeStyle::halves;
  Matrix cos_sin;        // RopeOp; absent: it does not rotate
  Weight query_factors;  // [positions, 1]; absent: 1
  float output_scale = 1.0f;
};

// Slots and visibility of a call's rows. Row r is stored at slot first_slot + r; it sees slots
// below `prefix` and slot prefix + j for each j of masks[r].
struct RowBatch {
  std::span<const std::uint32_t> positions;
  std::uint32_t prefix;
  std::uint32_t first_slot;
  std::span<const AncestorMask> masks;
  // Leading rows that are certain to stay, a chain: states of recurrent layers take them at once.
  std::uint32_t settled = 0;

  std::uint32_t count() const { return static_cast<std::uint32_t>(positions.size()); }
};

// Causal masks of `count` rows: each sees itself and the rows before it.
std::vector<AncestorMask> causal_masks(std::uint32_t count);

// Intermediate rows, allocated once for the widest call.
class LayerScratch {
 public:
  LayerScratch(Backend& backend, const LayerShape& shape, std::uint32_t rows_max);
  LayerScratch(Backend& backend, const LayerPlan& plan, std::uint32_t rows_max);
  // For all layers of a decoder.
  LayerScratch(Backend& backend, const DecoderConfig& config, std::uint32_t rows_max);

  OwnedMatrix normed;
  OwnedMatrix q;
  OwnedMatrix k;
  OwnedMatrix v;
  OwnedMatrix attended;
  OwnedMatrix mixer_gate;  // one column if no layer gates its mixer
  OwnedMatrix gate;
  OwnedMatrix up;
  OwnedMatrix routed;   // logits of experts; one column without experts
  OwnedMatrix experts;  // a row's choice
  OwnedMatrix shares;   // its weights
  OwnedMatrix mixed;    // results of experts, one row each
  OwnedMatrix zeros;    // one column without experts beside dense matrices

  // Per-call lists, kept so that calls do not allocate.
  std::vector<std::uint32_t> positions;
  std::vector<RopeStoreOp::Sequence> stored;
  std::vector<StoreOp> stores;
  std::vector<AttentionOp> attentions;

 private:
  struct Cols;
  LayerScratch(Backend& backend, const Cols& cols, std::uint32_t rows_max);
};

// Rows of one sequence and the cache for their keys and values.
// Shapes    keys, values [slots, kv_cols]
struct SequenceBatch {
  RowBatch batch;
  CacheView keys;
  CacheView values;
};

// x += Wo Attention(RMSNorm(x)) by the layer's plan; stores the rows' keys and values in their
// caches, unless the layer reads an earlier one's. Rows of the sequences are consecutive in x;
// sequences do not see each other.
// Shapes    x [sum of the batches' counts, dim]
void self_attention(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                    std::span<const SequenceBatch> sequences);
// As above; queries, keys and values are products of `input` instead of RMSNorm(x).
// Shapes    input [x.rows, columns of the layer's matrices]
// Requires  a layer without attn_norm
// Source    EAGLE-3, section 3.1: a drafter's layer that reads more than its residual stream
void self_attention(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                    const Matrix& input, std::span<const SequenceBatch> sequences);
// As the first, for one sequence.
void self_attention(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                    const RowBatch& batch, const CacheView& keys, const CacheView& values);

// Stores the keys and values of rows whose attention is not needed.
// Shapes    x [rows, dim], or as `input` above
void store_keys(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                const RopeStoreOp::Sequence& rows, std::span<const std::uint32_t> positions);

// x += a gated delta net's or a short convolution's result by the layer's plan. `rows` of the
// sequences are consecutive in x.
void delta_net(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
               std::span<const RecurrentRows> convolution, std::span<const RecurrentRows> delta);
void short_convolution(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                       std::span<const RecurrentRows> rows);

// x += Wdown(activation(Wgate n) * Wup n), n = RMSNorm(x), or the weighted sum of the
// experts that a row chooses.
void feed_forward(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x);

// x = output_scale * (x + RMSNorm(Wo(activation(Wg x) * e))), e = the tokens' embeddings for the
// layer, which some plans lack.
// Shapes    e [x.rows, embedding_dim]
void finish_layer(Backend& backend, const Layer& layer, LayerScratch& scratch, const Matrix& x,
                  const Matrix& e);

// Cosines and sines for every position, in the layout of RopeOp. [position_count, rotated]
// Source    RoFormer, eq. 34; divisors as Llama 3's frequency scaling
OwnedMatrix make_rope_table(Backend& backend, const RopeConfig& rope, std::uint32_t head_dim,
                            std::uint32_t position_count);

}  // namespace edgedraft
