#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/bundle_config.h"
#include "shared/model/config.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// general.architecture of a bundle. It keeps the keys of the assistant's own architecture, which
// are those of its target's family under another prefix.
inline constexpr std::string_view kAssistantArchitecture = "edgedraft-gemma4-assistant";
inline constexpr std::string_view kAssistantSource = "gemma4-assistant";
inline constexpr std::string_view kAssistantTargetDim = "embedding_length_out";
// Number of blocks without keys of their own, which are all blocks.
inline constexpr std::string_view kAssistantSharedKeys = "attention.shared_kv_layers";

// A key under the assistant's own architecture.
std::string assistant_key(std::string_view name);

// Keys and values of a layer of the target, which blocks of the assistant attend to.
struct AssistantMemory {
  // In a bundle.
  struct Names {
    const char* layer;
    const char* key_norm;
  };

  std::uint32_t layer = 0;   // among the target's layers with keys of their own
  HeadShape heads;           // those of the blocks
  std::uint32_t window = 0;  // 0: none
  LayerPlan::Rope rope = LayerPlan::Rope::main;
  // [1, head_dim]; present if the target projects keys and values by one matrix. The values are
  // then the normed product, and keys follow from them.
  TensorView key_norm = {};

  const Names& names() const;
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
// As above, of the parts that an assistant's own file has under the same names: blocks, memories
// without their layers, and the final norm.
Result<AssistantModel> read_assistant_blocks(const GgufFile& file);
// Blocks and memories without tensors.
// `blocks`: the plan of the target's family
// Errors    bad_file, unsupported
Result<AssistantModel> plan_assistant(DecoderConfig blocks, std::uint32_t target_dim);

}  // namespace edgedraft
