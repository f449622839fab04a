#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shared/model/decoder_tensors.h"
#include "shared/runtime/backend.h"
#include "shared/runtime/kv_cache.h"
#include "shared/runtime/layer.h"
#include "shared/runtime/weight_store.h"

namespace edgedraft {

// Rows that a sequence of a server keeps per layer to rebuild the states of drafted positions: as
// much memory as one to two states.
inline constexpr std::uint32_t kRecurrentRowsMax = 64;

// Rows of one sequence for a decoder; RowBatch gives their slots.
struct SequenceRows {
  KvCache* cache;
  std::span<const std::uint32_t> tokens;
  RowBatch batch;
};

// A decoder on a backend, for targets and independent drafters.
//
// Requires  the bytes of `tensors` (a mapped file) outlive the decoder
// Threads   one at a time; several KvCaches may alternate
class Decoder {
 public:
  // `positions_max`: maximum positions per sequence; sizes the rope tables. `states`: hidden states
  // that caches keep per position, increasing (StatePlanes); an empty list costs no memory or time.
  Decoder(Backend& backend, const DecoderConfig& config, const DecoderTensors& tensors,
          std::uint32_t positions_max, std::vector<std::uint32_t> states = {});

  const DecoderConfig& config() const { return config_; }
  std::uint32_t positions_max() const { return positions_max_; }
  Backend& backend() { return backend_; }

  // Slots per sequence: its positions and a tree after them.
  std::uint32_t slots_max() const { return positions_max_ + kMaskRowsMax; }
  // True if layers keep states, so that a sequence can only go back to its start, to a copy of the
  // states, or to a position that they do not yet cover, and shares pages only up to a copy.
  bool is_recurrent() const { return config_.is_recurrent(); }
  // Unsettled rows per sequence and pass that a cache from a pool has room for.
  std::uint32_t tree_rows_max() const { return is_recurrent() ? kRecurrentRowsMax : kMaskRowsMax; }
  // Largest window of the layers; 0 if no layer has one, or none lacks one. Caches can return the
  // pages before it.
  std::uint32_t window() const { return window_; }
  // A cache of slots_max() slots for one sequence: with its own memory, or from pools made for this
  // decoder, initially without memory.
  KvCache make_cache(DType type = DType::f32) const;
  KvPool::Size pool_size(std::uint32_t page_count, DType type = DType::f32,
                         std::uint32_t page_slots = KvPool::kPageSlots) const;
  KvCache make_cache(KvPool& pool) const;
  // Sizes of two pools, one of them for the layers with windows, and a cache from such pools.
  // Requires  window() > 0
  struct PoolSizes {
    KvPool::Size whole;
    KvPool::Size windowed;
  };
  PoolSizes pool_sizes(DType type = DType::f32,
                       std::uint32_t page_slots = KvPool::kPageSlots) const;
  KvCache make_cache(KvPool& whole, KvPool& windowed) const;
  // Bytes of the pages of a sequence of `slots` slots, at most.
  std::uint64_t pooled_bytes(std::uint32_t slots, DType type) const;

  // Runs `tokens` through all layers and leaves the rows' features. Stores keys, values and states
  // in the cache from batch.first_slot on; the caller sets the cache's length.
  // Requires  1 <= tokens <= kMaskRowsMax; the cache has memory for these slots
  void forward(KvCache& cache, std::span<const std::uint32_t> tokens, const RowBatch& batch);
  // As above for several sequences: each weight is read once for all, and each row gets the same
  // bits as alone. Row features keep the given order.
  // Requires  1 <= tokens in total <= kMaskRowsMax, different caches
  void forward(std::span<const SequenceRows> sequences);

  // Appends `tokens` to the cache as a plain sequence, in chunks of rows, and leaves the features
  // of the last chunk.
  // Requires  the cache has memory for them
  // Returns   rows of the last chunk
  std::uint32_t append(KvCache& cache, std::span<const std::uint32_t> tokens);

  // Masks for up to kMaskRowsMax consecutive tokens.
  std::span<const AncestorMask> causal_masks() const { return causal_masks_; }

  // Logits of rows first.. of the last forward(). Shape [count, config().head_rows()]; valid until
  // the next call.
  Matrix logits(std::uint32_t first, std::uint32_t count);

 private:
  void store_state(std::uint32_t state, const Matrix& x, std::span<const SequenceRows> sequences);
  void begin_states(std::span<const SequenceRows> sequences);
  void mix(std::uint32_t i, const Matrix& x, std::span<const SequenceRows> sequences);
  // The tokens' embeddings for all layers, from x, their embeddings.
  void embed_layers(const Matrix& x);
  // The part of layer i; empty without such embeddings.
  Matrix layer_embedding(std::uint32_t i, std::uint32_t rows) const;
  void norm(const Matrix& x, const Matrix& y);
  Layer make_layer(const LayerPlan& plan, const LayerTensors& tensors);

  Backend& backend_;
  DecoderConfig config_;
  std::uint32_t positions_max_;
  std::uint32_t window_;
  StatePlanes planes_;
  WeightStore store_;
  std::optional<OwnedMatrix> cos_sin_;
  std::optional<OwnedMatrix> window_cos_sin_;
  Weight embedding_;
  Weight output_norm_;
  Weight head_;
  Weight layer_table_;
  Weight layer_projection_;
  Weight layer_norm_;
  std::vector<float> growth_;  // of queries, per position
  Weight query_factors_;
  std::vector<Layer> layers_;
  std::vector<std::uint32_t> caches_;  // of each layer, the index of its keys and values in a cache
  LayerScratch scratch_;
  OwnedMatrix x_;
  std::optional<OwnedMatrix> layer_rows_;  // embeddings of all layers
  std::optional<OwnedMatrix> layer_products_;
  std::unique_ptr<OwnedMatrix> logits_;
  std::vector<AncestorMask> causal_masks_;
  // Inputs of the running call.
  std::vector<std::uint32_t> tokens_;
  std::vector<SequenceBatch> batches_;
  std::vector<std::uint32_t> parents_;
  std::vector<RecurrentRows> convolution_rows_;
  std::vector<RecurrentRows> delta_rows_;
};

}  // namespace edgedraft
