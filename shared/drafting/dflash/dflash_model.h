#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/bundle_config.h"
#include "shared/drafting/fused_tap.h"
#include "shared/model/config.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/gguf.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// general.architecture of a bundle. Its layers have the keys of Qwen3, whose computation they
// share, beside these and those of bundle_parts.h.
inline constexpr std::string_view kDflashArchitecture = "edgedraft-dflash";
inline constexpr std::string_view kDflashStates = "edgedraft.dflash.states";
inline constexpr std::string_view kDflashWindows = "edgedraft.dflash.windows";
inline constexpr std::string_view kDflashBlockSize = "edgedraft.dflash.block_size";
inline constexpr std::string_view kDflashMaskToken = "edgedraft.dflash.mask_token";
inline constexpr std::string_view kDflashCausal = "edgedraft.dflash.causal";
inline constexpr std::string_view kDflashCausalWindows = "edgedraft.dflash.causal_windows";
inline constexpr std::string_view kDflashEmbeddingScale = "edgedraft.dflash.embedding_scale";
inline constexpr std::string_view kDflashLogitScale = "edgedraft.dflash.logit_scale";
inline constexpr std::string_view kDflashLogitCap = "edgedraft.dflash.logit_cap";

// A level per token of the block but the first.
inline constexpr std::uint32_t kDflashBlockSizeMax = kTreeDepthMax + 1;

// A DFlash drafter as a bundle holds it: layers of Qwen3 over a block of tokens, whose attention
// also sees keys and values of the target's fused states.
//
// Source    DFlash (2026); layout as in llama.cpp
struct DflashConfig : BundleConfig {
  DecoderConfig decoder;         // its layers have the windows; scale of embeddings, logit cap
  std::uint32_t block_size = 0;  // a token and the masks after it
  std::uint32_t mask_token = 0;
  bool causal = false;          // whether a block's rows do not see later ones
  bool causal_windows = false;  // the same, in layers with a window
  float logit_scale = 1.0f;     // before the cap
};

struct DflashTensors {
  TensorView token_embd;             // [vocabulary, dim]
  std::optional<TensorView> output;  // [head_rows, dim]; absent if the head is the embedding
  TensorView output_norm;            // [1, dim]
  std::vector<LayerTensors> layers;
};

struct DflashModel {
  DflashConfig config;
  DflashTensors tensors;
  StateFusion fusion;  // of the server
};

// Every shape is checked. Errors    bad_file naming the key or tensor; unsupported
Result<DflashModel> read_dflash(const GgufFile& file);

}  // namespace edgedraft
