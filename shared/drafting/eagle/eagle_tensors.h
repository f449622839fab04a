#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/bundle_config.h"
#include "shared/model/config.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// general.architecture of a bundle, and the keys that it has beside those of bundle_parts.h.
inline constexpr std::string_view kEagleArchitecture = "edgedraft-eagle";
inline constexpr std::string_view kEagleLayerPrefix = "edgedraft.layer.";
// How the network was trained, if its configuration says so ("hass"); a name, and nothing else.
inline constexpr std::string_view kEagleVariant = "edgedraft.variant";

// An EAGLE drafter as a bundle holds it.
//
// Source    EAGLE, section 4: one decoder layer over features and the tokens one step ahead
struct EagleConfig : BundleConfig {
  LayerShape layer;     // as wide as the target's residual stream
  RopeConfig rope;      // position = index of the feature
  std::string variant;  // empty for most
};

struct EagleTensors {
  TensorView token_embd;             // [vocabulary, dim]
  std::optional<TensorView> output;  // [head_rows, dim]; absent where the head is the embedding
  TensorView fc_embedding;           // [dim, dim]: the half that multiplies the token's embedding
  TensorView fc_feature;             // [dim, dim]: the half that multiplies the feature
  TensorView fc_bias;                // [1, dim] or absent
  LayerTensors layer;                // as a rule without attn_norm
};

struct EagleModel {
  EagleConfig config;
  EagleTensors tensors;
};
// Every shape is checked. Errors    bad_file naming the key or tensor; unsupported
Result<EagleModel> read_eagle(const GgufFile& file);

}  // namespace edgedraft
