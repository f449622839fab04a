#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shared/model/decoder_tensors.h"
#include "shared/runtime/backend.h"
#include "shared/runtime/kv_cache.h"
#include "shared/runtime/layer.h"
#include "shared/runtime/weight_store.h"

namespace edgedraft {

// Rows of one sequence on their way through a decoder: RowBatch says where they stand.
struct SequenceRows {
  KvCache* cache;
  std::span<const std::uint32_t> tokens;
  RowBatch batch;
};

// A Llama-style decoder on a backend: target, independent drafter.
//
// Requires  the bytes behind `tensors` (a mapped file) outlive the decoder
// Threads   one at a time; several KvCaches may take turns
class Decoder {
 public:
  // `positions_max`: how many positions a sequence may have; rope tables are made for them.
  // `states`: hidden states that caches keep of every position, increasing (StatePlanes); none cost
  // neither memory nor time.
  Decoder(Backend& backend, const DecoderConfig& config, const DecoderTensors& tensors,
          std::uint32_t positions_max, std::vector<std::uint32_t> states = {});

  const DecoderConfig& config() const { return config_; }
  std::uint32_t positions_max() const { return positions_max_; }
  Backend& backend() { return backend_; }

  // Slots that a sequence may have: its positions and a tree behind them.
  std::uint32_t slots_max() const { return positions_max_ + kMaskRowsMax; }
  // A cache for one sequence, of slots_max() slots: with memory of its own, or from a pool made for
  // this decoder, which gives it none at first.
  KvCache make_cache(DType type = DType::f32) const;
  KvPool::Size pool_size(std::uint32_t page_count, DType type = DType::f32,
                         std::uint32_t page_slots = KvPool::kPageSlots) const;
  KvCache make_cache(KvPool& pool) const;

  // Runs `tokens` through all layers. Their keys, values and states are stored in the cache's slots
  // from batch.first_slot on; its length is the caller's to change. Leaves the rows' features.
  // Requires  1 <= tokens <= kMaskRowsMax; the cache has memory for these slots
  void forward(KvCache& cache, std::span<const std::uint32_t> tokens, const RowBatch& batch);
  // The same for several sequences at once: each weight is read once for all of them, and each row
  // gets the bits that it gets alone. Row features stand in the order given.
  // Requires  1 <= tokens of all together <= kMaskRowsMax, different caches
  void forward(std::span<const SequenceRows> sequences);

  // Appends `tokens` to the cache as a plain sequence, a chunk of rows at a time, and leaves the
  // features of the last chunk's rows.
  // Requires  the cache has memory for them
  // Returns   how many rows the last chunk had
  std::uint32_t append(KvCache& cache, std::span<const std::uint32_t> tokens);

  // Masks of up to kMaskRowsMax tokens in a row.
  std::span<const AncestorMask> causal_masks() const { return causal_masks_; }

  // The logits of rows first.. of the last forward(). Shape [count, config().head_rows()]; valid
  // until the next call.
  Matrix logits(std::uint32_t first, std::uint32_t count);

 private:
  void store_state(std::uint32_t state, const Matrix& x, std::span<const SequenceRows> sequences);
  void norm(const Matrix& x, const Matrix& y);

  Backend& backend_;
  DecoderConfig config_;
  std::uint32_t positions_max_;
  StatePlanes planes_;
  WeightStore store_;
  OwnedMatrix cos_sin_;
  Weight embedding_;
  Weight output_norm_;
  Weight head_;
  std::vector<Layer> layers_;
  LayerScratch scratch_;
  OwnedMatrix x_;
  std::unique_ptr<OwnedMatrix> logits_;
  std::vector<AncestorMask> causal_masks_;
  // What the running call works on.
  std::vector<std::uint32_t> tokens_;
  std::vector<SequenceBatch> batches_;
};

}  // namespace edgedraft
