#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/feature_network.h"
#include "shared/model/config.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/families/layer_list.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// general.architecture of a bundle. Beside the keys of bundle_parts.h and of a Llama, which
// describe its layer, it has these. Tensors have llama.cpp's names.
inline constexpr std::string_view kEagle3Architecture = "edgedraft-eagle3";
inline constexpr std::string_view kEagle3States = "edgedraft.eagle3.target_layers";
inline constexpr std::string_view kEagle3TargetDim = "edgedraft.eagle3.target_dim";
inline constexpr std::string_view kEagle3StartsNormed = "edgedraft.eagle3.norm_before_residual";
inline constexpr std::string_view kEagle3NormsStates = "edgedraft.eagle3.norm_before_fc";
// Family of the layer's keys.
inline constexpr std::string_view kEagle3Family = "llama";
// States per position; published drafters have three.
inline constexpr std::size_t kEagle3StatesMax = 8;

// Sizes of a drafter.
struct Eagle3Config {
  DecoderConfig layer;                // one layer, of the drafter's width
  std::vector<std::uint32_t> states;  // layers of the target whose inputs are read, increasing
  std::uint32_t target_dim = 0;
  bool starts_normed = false;  // FeatureModel
  bool norms_states = false;   // fc has a norm before it

  // Columns of fc.
  std::uint32_t cols() const { return static_cast<std::uint32_t>(states.size()) * target_dim; }
};

// The part that the server computes.
struct Eagle3Projection {
  std::vector<std::uint32_t> states;
  std::uint32_t target_dim = 0;
  float rms_epsilon = 0.0f;
  TensorView fc;       // [dim, states * target_dim]
  TensorView fc_norm;  // [1, states * target_dim], over the states side by side; or absent

  std::uint32_t cols() const { return static_cast<std::uint32_t>(states.size()) * target_dim; }
};

struct Eagle3Model {
  FeatureModel network;  // of the device
  Eagle3Projection projection;
};

// The tensors of the layer but for the norm of the feature. Queries, keys and values have 2 * dim
// columns, the embedding's first.
LayerList eagle3_layer(const LayerShape& shape);

// Checks states against the target's number of layers.
// Errors    bad_file or unsupported, naming `what`
Result<std::vector<std::uint32_t>> eagle3_states(std::span<const std::int32_t> layers,
                                                 std::uint32_t target_layer_count,
                                                 std::string_view what);
// Checks the sizes. Errors    bad_file, unsupported
Result<void> check_eagle3_sizes(const Eagle3Config& config);

// Reads everything but embedding, head and vocabulary, from a bundle or llama.cpp's file.
//
// Errors    bad_file naming the tensor; unsupported for one that the configuration does not have
Result<Eagle3Model> read_eagle3_tensors(const GgufFile& file, const Eagle3Config& config);

// Every shape is checked. Errors    bad_file naming the key or tensor; unsupported
Result<Eagle3Model> read_eagle3(const GgufFile& file);

}  // namespace edgedraft
