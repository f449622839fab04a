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

// Metadata keys beyond those of bundle_parts.h.
namespace moa_keys {

inline constexpr std::string_view kTli = "edgedraft.tli";
inline constexpr std::string_view kOutputNormEpsilon = "edgedraft.output_norm.rms_epsilon";

// Key prefixes of the layers.
inline constexpr std::string_view kSa = "edgedraft.sa.";
inline constexpr std::string_view kCa = "edgedraft.ca.";
inline constexpr std::string_view kLsa = "edgedraft.lsa.";
inline constexpr std::string_view kTarget = "edgedraft.target.";

}  // namespace moa_keys

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

// Part of the memory sent per position.
enum class CutPoint : std::uint8_t {
  lsa_mean,  // the mean of LSA's rows, 2 * target kv_cols values; the device projects (the paper's)
  ca_kv,     // CA's keys, not yet rotated, and values, 2 * CA kv_cols values; the server projects
};

// Name on the link, e.g. "lsa_mean".
std::string_view to_string(CutPoint cut);

// Layout of the activations of one position:
// memory part, then for each TLI layer: keys (rotated), values.
//
// Source    Mixture of Attentions, Table 7: 2 * E_kv * (TLI + 1) values per position at
//           CutPoint::lsa_mean
struct MoaRowLayout {
  CutPoint cut;
  std::uint32_t memory_cols;
  std::uint32_t tli_layer_cols;  // keys and values of one layer
  std::uint32_t tli;
  // Sizes of the groups that share a scale, in order; they add up to cols().
  std::vector<std::uint32_t> scale_groups;

  std::uint32_t cols() const { return memory_cols + tli * tli_layer_cols; }
  std::uint32_t tli_first_col(std::uint32_t layer) const {
    return memory_cols + layer * tli_layer_cols;
  }
};

// Layout with the cut point that sends fewer bytes; the paper's if equal.
MoaRowLayout moa_row_layout(const HeadShape& target, const HeadShape& ca, std::uint32_t tli);
MoaRowLayout moa_row_layout(const MoaConfig& config);

}  // namespace edgedraft
