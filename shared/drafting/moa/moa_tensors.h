#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "shared/drafting/bundle_config.h"
#include "shared/model/config.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// general.architecture of a bundle.
inline constexpr std::string_view kMoaArchitecture = "edgedraft-moa";

// A Mixture-of-Attentions drafter as a bundle holds it.
//
// Source    Mixture of Attentions, section 3; sizes from the tensors' shapes
struct MoaConfig : BundleConfig {
  LayerShape self_attention;        // SA: width of the target's residual stream
  LayerShape cross_attention;       // CA: the same width; keys and values from the memory
  LayerShape layer_self_attention;  // LSA: width 2 * target kv_cols
  RopeConfig sa_rope;
  RopeConfig ca_rope;
  RopeConfig lsa_rope;  // position = layer index
  // The target's sizes; the drafter runs its last layers itself.
  LayerShape target_layer;
  RopeConfig target_rope;
  std::uint32_t tli = 0;
  float output_norm_epsilon = 1e-5f;
};

struct MoaTensors {
  TensorView token_embd;             // [vocabulary, dim]
  std::optional<TensorView> output;  // [head_rows, dim]; absent if the head is the embedding
  TensorView output_norm;            // [1, dim]; used if tli > 0
  LayerTensors self_attention;
  LayerTensors cross_attention;
  LayerTensors layer_self_attention;
  TensorView ekv2e;               // [dim, 2 * target kv_cols]
  TensorView ekv2e_bias;          // [1, dim]
  std::vector<LayerTensors> tli;  // the target's last layers, in order
};

Result<MoaConfig> read_moa_config(const GgufFile& file);
Result<MoaTensors> read_moa_tensors(const GgufFile& file, const MoaConfig& config);

struct MoaModel {
  MoaConfig config;
  MoaTensors tensors;
};
Result<MoaModel> read_moa(const GgufFile& file);

}  // namespace edgedraft
