#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "shared/base/error.h"
#include "shared/drafting/bundle_config.h"
#include "shared/drafting/feature_network.h"
#include "shared/model/config.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// general.architecture of a bundle, and its keys beyond those of bundle_parts.h.
inline constexpr std::string_view kEagleArchitecture = "edgedraft-eagle";
inline constexpr std::string_view kEagleLayerPrefix = "edgedraft.layer.";
// Training variant from the configuration ("hass"); informational only.
inline constexpr std::string_view kEagleVariant = "edgedraft.variant";

// An EAGLE drafter as a bundle holds it.
//
// Source    EAGLE, section 4: one decoder layer over features and the tokens one step ahead
struct EagleConfig : BundleConfig {
  LayerShape layer;     // width of the target's residual stream
  RopeConfig rope;      // position = index of the feature
  std::string variant;  // empty for most
};

struct EagleTensors {
  TensorView token_embd;             // [vocabulary, dim]
  std::optional<TensorView> output;  // [head_rows, dim]; absent if the head is the embedding
  TensorView fc_embedding;           // [dim, dim]: multiplies the token's embedding
  TensorView fc_feature;             // [dim, dim]: multiplies the feature
  TensorView fc_bias;                // [1, dim] or absent
  LayerTensors layer;                // usually without attn_norm
};

struct EagleModel {
  EagleConfig config;
  EagleTensors tensors;
};
// Non-owning. A feature and the token after it are an input.
FeatureModel feature_model(const EagleConfig& config, const EagleTensors& tensors);

// Every shape is checked. Errors    bad_file naming the key or tensor; unsupported
Result<EagleModel> read_eagle(const GgufFile& file);

}  // namespace edgedraft
