#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/bundle_config.h"
#include "shared/model/config.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/families/layer_list.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// general.architecture of a bundle, and its keys beyond those of bundle_parts.h.
inline constexpr std::string_view kMultistreamArchitecture = "edgedraft-multistream";
inline constexpr std::string_view kMultistreamStreams = "edgedraft.multistream.stream_count";
inline constexpr std::string_view kMultistreamLayers = "edgedraft.multistream.layer_count";
// Prefix of the keys of the target's layers.
inline constexpr std::string_view kMultistreamLayer = "edgedraft.target.";

// Streams as a bundle holds them.
struct MultistreamConfig : BundleConfig {
  std::uint32_t stream_count = 0;
  std::uint32_t layer_count = 0;  // the target's last ones
  LayerShape layer;               // the target's; ffn_dim is the rank of the adapters
  RopeConfig rope;

  // The hidden state at which the streams begin (StatePlanes).
  std::uint32_t first_state() const { return target_layer_count - layer_count; }
};

struct MultistreamTensors {
  struct Adapter {
    TensorView down;  // [rank, dim]
    TensorView up;    // [dim, rank]
  };
  std::vector<TensorView> embeddings;  // per stream [1, dim]
  std::vector<LayerTensors> layers;    // attention and ffn_norm
  std::vector<Adapter> adapters;       // per layer
  TensorView output_norm;              // [1, dim]
  TensorView output;                   // [head_rows, dim]
};

struct MultistreamModel {
  MultistreamConfig config;
  MultistreamTensors tensors;
};
// Every shape is checked. Errors    bad_file naming the key or tensor; unsupported
Result<MultistreamModel> read_multistream(const GgufFile& file);

// Tensors of a target's layer that streams use.
LayerList stream_layer(const LayerShape& shape);

// Groups of a position's activations that share a scale: the hidden state; then each layer's keys
// (rotated) and values, head by head.
std::vector<std::uint32_t> multistream_groups(const MultistreamConfig& config);

}  // namespace edgedraft
