#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/bundle_config.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/config.h"
#include "shared/model/convert/model_plan.h"
#include "shared/model/gguf.h"
#include "shared/model/gguf_writer.h"
#include "shared/model/safetensors.h"
#include "shared/tensor/dtype.h"

// What bundles of several kinds hold in the same way: how it is planned, and how it is read.
namespace edgedraft {

inline constexpr std::string_view kBundleContextLengthKey = "edgedraft.context_length";
inline constexpr std::string_view kBundleTargetLayerCountKey = "edgedraft.target.layer_count";

// --- planning ---

struct CheckpointInput {
  const GgufFile& file;  // the target's
  const DecoderConfig& target;
  const SafetensorsModel& checkpoint;
  const nlohmann::json& config;  // read_drafter_config()
  DType type;                    // of the drafter's own matrices
};
// Plans the bundle of a checkpoint's folder: `add` checks the checkpoint and adds its tensors and
// metadata, all but the sizes of its target.
// Errors    io, bad_file, unsupported; those of `add`
Result<ModelPlan> plan_checkpoint(const BundleSource& source,
                                  Result<void> (*add)(const CheckpointInput& input,
                                                      ModelPlan& plan));

// The config.json of a checkpoint's folder; an empty object where there is none.
Result<nlohmann::json> read_drafter_config(const std::filesystem::path& directory);

// Values of config.json that repeat what the target says must agree with it.
// Errors    mismatch naming the key
Result<void> check_made_for(
    const nlohmann::json& config,
    std::initializer_list<std::pair<const char*, std::uint32_t>> of_the_target);

// The rows of a matrix of the checkpoint. Errors    bad_file naming the tensor
Result<std::uint32_t> rows_of(const SafetensorsModel& checkpoint, const std::string& name);

struct LayerInference {
  std::string prefix;  // of the layer's tensors
  std::uint32_t dim;
  std::uint32_t head_dim;
  float rms_epsilon;
};
// A layer's sizes from its tensors; CheckpointReader then checks every shape against them.
Result<LayerShape> infer_layer(const SafetensorsModel& checkpoint, const LayerInference& layer);

// The keys of a layer behind `prefix`.
void set_layer(GgufMetadata& metadata, std::string_view prefix, const LayerShape& shape,
               float theta, RopeStyle style);
// The divisors of a layer's frequencies, where it has any: the tensor "rope_freqs.weight" behind
// `tensor_prefix`.
void add_divisors(const RopeConfig& rope, std::string_view tensor_prefix, ModelPlan& plan);

// The target's tokenizer and fingerprint.
Result<void> copy_identity(const GgufFile& target, GgufMetadata& metadata);
// The target's embedding and head, bit for bit.
void copy_vocabulary(const GgufFile& target, ModelPlan& plan);

// --- reading ---

// A norm's epsilon. Errors    bad_file naming the key
Result<float> read_bundle_epsilon(const GgufFile& file, std::string_view key);

struct BundleLayer {
  LayerShape shape;
  RopeConfig rope;
};
// What set_layer() and add_divisors() wrote.
Result<BundleLayer> read_bundle_layer(const GgufFile& file, std::string_view prefix,
                                      std::string_view tensor_prefix);

// All but the vocabulary. Errors    bad_file for a file of another architecture, or naming the key
Result<void> read_bundle_config(const GgufFile& file, std::string_view architecture,
                                BundleConfig& config);
// From the embedding, whose rows are `dim` wide.
Result<void> read_bundle_vocabulary(const GgufFile& file, std::uint32_t dim, BundleConfig& config);

}  // namespace edgedraft
