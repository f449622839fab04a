#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "shared/base/error.h"
#include "shared/drafting/bundle_config.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/config.h"
#include "shared/model/gguf.h"
#include "shared/model/gguf_writer.h"
#include "shared/model/model_plan.h"
#include "shared/model/safetensors.h"
#include "shared/model/tensor_shapes.h"
#include "shared/tensor/dtype.h"

// Planning and reading of parts common to bundles of several kinds.
namespace edgedraft {

inline constexpr std::string_view kBundleContextLengthKey = "edgedraft.context_length";
inline constexpr std::string_view kBundleTargetLayerCountKey = "edgedraft.target.layer_count";
// Of bundles without an embedding.
inline constexpr std::string_view kBundleVocabularyCountKey = "edgedraft.vocab_size";

// --- planning ---

struct CheckpointInput {
  const GgufFile& file;  // the target's
  const DecoderConfig& target;
  const SafetensorsModel& checkpoint;
  const nlohmann::json& config;  // read_drafter_config()
  DType type;                    // type of the drafter's own matrices
};
// Plans the bundle of a checkpoint's folder. `add` checks the checkpoint and adds its tensors and
// metadata, except the sizes of its target.
// Errors    io, bad_file, unsupported; those of `add`
Result<ModelPlan> plan_checkpoint(const BundleSource& source,
                                  Result<void> (*add)(const CheckpointInput& input,
                                                      ModelPlan& plan));

// The config.json of a checkpoint's folder; an empty object if there is none.
Result<nlohmann::json> read_drafter_config(const std::filesystem::path& directory);

// Checks that values in config.json that repeat the target's agree with it.
// Errors    mismatch naming the key
Result<void> check_made_for(
    const nlohmann::json& config,
    std::initializer_list<std::pair<const char*, std::uint32_t>> of_the_target);

// Rows of a matrix of the checkpoint. Errors    bad_file naming the tensor
Result<std::uint32_t> rows_of(const SafetensorsModel& checkpoint, const std::string& name);

struct LayerInference {
  std::string prefix;  // name prefix of the layer's tensors
  std::uint32_t dim;
  std::uint32_t head_dim;
  float rms_epsilon;
};
// Infers a layer's sizes from its tensors; CheckpointReader then checks every shape.
Result<LayerShape> infer_layer(const SafetensorsModel& checkpoint, const LayerInference& layer);

// Sets the keys of a layer, each starting with `prefix`.
void set_layer(GgufMetadata& metadata, std::string_view prefix, const LayerShape& shape,
               float theta, RopeStyle style);
// Adds a layer's frequency divisors, if any, as the tensor "rope_freqs.weight" after
// `tensor_prefix`.
void add_divisors(const RopeConfig& rope, std::string_view tensor_prefix, ModelPlan& plan);

// Adds "fc_embd.weight" and "fc_feature.weight", the halves of a matrix [rows, 2 * dim] that
// multiplies [embedding; feature]. Then both matmuls accumulate, and no concatenation is needed.
// Errors    unsupported: a type whose blocks both halves share
Result<void> add_halves(const PlannedTensor& whole, DType type, ModelPlan& plan);

// Copies the target's tokenizer and fingerprint.
Result<void> copy_identity(const GgufFile& target, GgufMetadata& metadata);
// Copies the target's embedding and head bit for bit.
void copy_vocabulary(const GgufFile& target, ModelPlan& plan);

// Copies only the matrix of the target's head bit for bit: the embedding if tied.
// Errors    bad_file
Result<void> copy_head(const GgufFile& target, ModelPlan& plan);

// --- reading ---

// Reads what copy_head() wrote. Shapes    [config.head_rows(), dim]
void read_head(const GgufFile& file, const BundleConfig& config, std::uint32_t dim,
               TensorReader& reader, TensorView& out);

// Epsilon of a norm. Errors    bad_file naming the key
Result<float> read_bundle_epsilon(const GgufFile& file, std::string_view key);

struct BundleLayer {
  LayerShape shape;
  RopeConfig rope;
};
// Reads what set_layer() and add_divisors() wrote.
Result<BundleLayer> read_bundle_layer(const GgufFile& file, std::string_view prefix,
                                      std::string_view tensor_prefix);

// Reads everything but the vocabulary. Errors    bad_file for another architecture, or naming the
// key
Result<void> read_bundle_config(const GgufFile& file, std::string_view architecture,
                                BundleConfig& config);
// Reads the vocabulary from the embedding, whose rows are `dim` wide.
Result<void> read_bundle_vocabulary(const GgufFile& file, std::uint32_t dim, BundleConfig& config);

}  // namespace edgedraft
