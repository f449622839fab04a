#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/bundle_config.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/config.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/gguf.h"
#include "shared/model/model_plan.h"

namespace edgedraft {

// general.architecture of a bundle. It keeps the keys of the assistant's own architecture, which
// are those of its target's family under another prefix.
inline constexpr std::string_view kAssistantArchitecture = "edgedraft-gemma4-assistant";
inline constexpr std::string_view kAssistantSource = "gemma4-assistant";

// Keys and values of a layer of the target, which blocks of the assistant attend to.
struct AssistantMemory {
  std::uint32_t layer = 0;   // among the target's layers with keys of their own
  HeadShape heads;           // those of the blocks
  std::uint32_t window = 0;  // 0: none
  LayerPlan::Rope rope = LayerPlan::Rope::main;
  // [1, head_dim]; present if the target projects keys and values by one matrix. The values are
  // then the normed product, and keys follow from them.
  TensorView key_norm = {};

  std::uint32_t cols() const { return (key_norm.present() ? 1 : 2) * heads.kv_cols(); }
};

// An assistant as a bundle holds it.
struct AssistantModel {
  BundleConfig sizes;
  DecoderConfig blocks;  // its width is the assistant's; no block has keys of its own
  std::uint32_t target_dim = 0;
  std::vector<AssistantMemory> memories;
  std::vector<std::uint32_t> memory_of_block;

  TensorView token_embd;    // [vocabulary, target_dim]: the target's
  TensorView output;        // [head_rows, dim]
  TensorView output_norm;   // [1, dim]
  TensorView fc_embedding;  // [dim, target_dim]: multiplies the token's embedding
  TensorView fc_feature;    // [dim, target_dim]: multiplies the feature
  TensorView fc_next;       // [target_dim, dim]: predicts the next feature
  std::vector<LayerTensors> layers;

  std::uint32_t dim() const { return blocks.layer.dim; }
  // Sizes of the groups that share a scale in the row of a position: for each memory its keys,
  // rotated, unless they follow from the values, and its values; then fc_feature's product.
  std::vector<std::uint32_t> scale_groups() const;
};

// Every shape is checked. Errors    bad_file naming the key or tensor; unsupported
Result<AssistantModel> read_assistant(const GgufFile& file);

// Whether the path is a GGUF file of an assistant.
bool is_assistant_file(const std::filesystem::path& drafter);
// Errors    unsupported: the target is of another family
Result<void> check_assistant_target(const DecoderConfig& target);
// Plans the bundle of an assistant's GGUF file.
//
// Errors    io, bad_file, unsupported; mismatch: the assistant was made for another target
Result<ModelPlan> plan_assistant_bundle(const BundleSource& source);

}  // namespace edgedraft
