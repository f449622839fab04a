#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shared/drafting/multistream/multistream_tensors.h"
#include "shared/drafting/newest_rows.h"
#include "shared/runtime/kv_cache.h"
#include "shared/runtime/layer.h"
#include "shared/runtime/weight_store.h"

namespace edgedraft {

// Weights, tables and scratch shared by all sequences of a drafter. One sequence computes at a
// time.
class MultistreamWeights {
 public:
  // Requires  the bytes of `tensors` outlive the object
  MultistreamWeights(Backend& backend, const MultistreamConfig& config,
                     const MultistreamTensors& tensors, std::uint32_t positions_max);

  const MultistreamConfig& config() const { return config_; }
  // Bytes of keys and values per sequence.
  std::uint64_t sequence_bytes() const { return cache_size().bytes(); }

 private:
  friend class MultistreamNetwork;

  struct Adapter {
    Weight down;
    Weight up;
  };
  KvCache::Size cache_size() const;

  Backend& backend_;
  MultistreamConfig config_;
  std::uint32_t positions_max_;
  std::uint32_t row_cols_;  // activations per position
  WeightStore store_;
  OwnedMatrix cos_sin_;
  std::vector<std::vector<float>> embeddings_;
  std::vector<Layer> layers_;
  std::vector<Adapter> adapters_;
  Weight output_norm_;
  Weight head_;
  LayerScratch scratch_;
  OwnedMatrix arrived_;
  OwnedMatrix x_;
  OwnedMatrix logits_;
};

// Streams beside the target's own. Stream j of position t, counted from 1, guesses the token t + j
// + 1. It begins as the target's residual stream before its last layers, plus an embedding of the
// stream, and runs through these layers: attention sees the target's keys and values of positions
// up to t and streams 1..j of t, rotated for t + j; an adapter of low rank replaces the
// feed-forward. The target's own stream does not see them, so its logits stay the same.
//
// Keys and values are a set of positions: any order of arrival, holes allowed.
//
// Source    Speculative Streaming (Bhendawade et al., 2024), lossless mode, equations 2 and 4,
// where
//           f is the identity
class MultistreamNetwork {
 public:
  explicit MultistreamNetwork(std::shared_ptr<MultistreamWeights> weights);

  const MultistreamConfig& config() const { return m_->config_; }
  Backend& backend() { return backend_; }
  std::uint32_t activation_cols() const { return m_->row_cols_; }

  // Adds activations of positions first, first + 1, ...; drops those beyond the context.
  // Shapes    rows [n, activation_cols()]
  void extend_memory(std::uint32_t first_position, std::span<const float> rows);
  // Drops positions from `position` on.
  void truncate_memory(std::uint32_t position);

  // Newest position before `end` whose streams can run.
  std::optional<std::uint32_t> newest_before(std::uint32_t end) const;
  // Logits of streams first, first + 1, ..., counted from 0, one row each; valid until any sequence
  // computes again. Requires a position of newest_before().
  // Shapes    result [count, config().head_rows()]
  Matrix logits(std::uint32_t position, std::uint32_t first, std::uint32_t count);

 private:
  std::uint32_t memory_count() const { return memory_.length(); }
  void append_memory(std::uint32_t first_position, std::span<const float> rows);
  // First slot with a position after `position`; memory_count() if there is none.
  std::uint32_t first_hidden(std::uint32_t position) const;

  std::shared_ptr<MultistreamWeights> m_;
  Backend& backend_;
  KvCache memory_;  // slot = order of arrival; a call's streams come after them
  std::vector<std::uint32_t> memory_positions_;
  NewestRows states_;  // where streams begin
};

}  // namespace edgedraft
