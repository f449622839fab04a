#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/feature_network.h"
#include "shared/drafting/fused_tap.h"
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

struct Eagle3Model {
  FeatureModel network;    // of the device
  StateFusion projection;  // of the server
};

// The tensors of the layer but for the norm of the feature. Queries, keys and values have 2 * dim
// columns, the embedding's first.
LayerList eagle3_layer(const LayerShape& shape);

// Checks the sizes. Errors    bad_file, unsupported
Result<void> check_eagle3_sizes(const Eagle3Config& config);

// Reads everything but embedding, head and vocabulary, from a bundle or llama.cpp's file.
//
// Errors    bad_file naming the tensor; unsupported for one that the configuration does not have
Result<Eagle3Model> read_eagle3_tensors(const GgufFile& file, const Eagle3Config& config);

// Every shape is checked. Errors    bad_file naming the key or tensor; unsupported
Result<Eagle3Model> read_eagle3(const GgufFile& file);

}  // namespace edgedraft
