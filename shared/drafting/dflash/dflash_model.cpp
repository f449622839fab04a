#include "shared/drafting/dflash/dflash_model.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/drafter_fit.h"
#include "shared/model/families/layers_of_drafters.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

Result<void> read_windows(const GgufFile& file, DecoderConfig& decoder) {
  const auto windows = file.get_i32s(kDflashWindows);
  if (!windows) return windows.error();
  if (windows->size() != decoder.layer_count ||
      std::ranges::any_of(*windows, [](std::int32_t window) { return window < 0; })) {
    return bad_file(std::string(kDflashWindows) + " is not one size per layer, 0 without a window");
  }
  for (const std::int32_t window : *windows) {
    LayerPlan& plan = decoder.layers.emplace_back(LayerPlan{.shape = decoder.layer});
    plan.window = static_cast<std::uint32_t>(window);
  }
  return {};
}

// Values that a bundle only has if they change something.
Result<void> read_scales(const GgufFile& file, DflashConfig& config) {
  const std::pair<std::string_view, float*> scales[] = {
      {kDflashEmbeddingScale, &config.decoder.embedding_scale},
      {kDflashLogitScale, &config.logit_scale},
      {kDflashLogitCap, &config.decoder.logit_cap}};
  for (const auto& [key, field] : scales) {
    if (file.find_value(key) == nullptr) continue;
    const auto value = file.get_f32(key);
    if (!value) return value.error();
    if (!(*value > 0.0f) || !std::isfinite(*value)) {
      return bad_file(std::string(key) + " is not a finite number above 0");
    }
    *field = *value;
  }
  return {};
}

Result<DflashConfig> read_config(const GgufFile& file) {
  DflashConfig config;
  if (auto read = read_bundle_config(file, kDflashArchitecture, config); !read) return read.error();
  auto decoder = read_family_config(file, kQwen3.architecture);
  if (!decoder) return decoder.error();
  config.decoder = std::move(*decoder);
  const std::uint32_t dim = config.decoder.layer.dim;
  if (auto heads =
          check_heads(config.decoder.layer.heads, "the drafter's attention", kDrafterHeadDimMax);
      !heads) {
    return heads.error();
  }
  if (auto row = check_row(std::span(&dim, 1)); !row) return row.error();
  if (auto read = read_windows(file, config.decoder); !read) return read.error();
  const auto block_size = read_count(file, kDflashBlockSize, kDflashBlockSizeMax);
  if (!block_size) return block_size.error();
  if (*block_size < 2) return bad_file(std::string(kDflashBlockSize) + " is below 2");
  config.block_size = *block_size;
  if (auto read = read_bundle_vocabulary(file, dim, config); !read) return read.error();
  const auto mask_token = file.get_u32(kDflashMaskToken);
  if (!mask_token) return mask_token.error();
  if (*mask_token >= config.vocabulary_count) {
    return bad_file(std::string(kDflashMaskToken) + " is " + std::to_string(*mask_token) +
                    ", outside the vocabulary of " + std::to_string(config.vocabulary_count));
  }
  config.mask_token = *mask_token;
  const auto causal = file.get_bool_or(kDflashCausal, false);
  if (!causal) return causal.error();
  config.causal = *causal;
  const auto causal_windows = file.get_bool_or(kDflashCausalWindows, *causal);
  if (!causal_windows) return causal_windows.error();
  config.causal_windows = *causal_windows;
  if (auto read = read_scales(file, config); !read) return read.error();
  return config;
}

Result<DflashTensors> read_tensors(const GgufFile& file, const DflashConfig& config) {
  const std::uint32_t dim = config.decoder.layer.dim;
  DflashTensors tensors;
  TensorReader reader(file, "");
  reader.matrix("token_embd.weight", config.vocabulary_count, dim, tensors.token_embd);
  if (file.find_tensor("output.weight") != nullptr || !config.draft_tokens.empty()) {
    reader.matrix("output.weight", config.head_rows(), dim, tensors.output.emplace());
  }
  reader.vector("output_norm.weight", dim, tensors.output_norm);
  if (reader.error()) return *reader.error();
  for (std::uint32_t i = 0; i < config.decoder.layer_count; ++i) {
    auto layer = read_family_layer(file, "layer." + std::to_string(i) + ".", kQwen3.architecture,
                                   config.decoder.plan(i));
    if (!layer) return layer.error();
    tensors.layers.push_back(std::move(*layer));
  }
  return tensors;
}

// The part that the server computes; its norm follows the projection.
Result<StateFusion> read_fusion(const GgufFile& file, const DflashConfig& config) {
  const auto layers = file.get_i32s(kDflashStates);
  if (!layers) return layers.error();
  auto states = fused_states(*layers, config.target_layer_count, kDflashStates);
  if (!states) return states.error();
  const LayerShape& shape = config.decoder.layer;
  StateFusion fusion{
      .states = std::move(*states), .target_dim = shape.dim, .rms_epsilon = shape.rms_epsilon};
  TensorReader reader(file, "");
  reader.matrix("fc.weight", shape.dim, fusion.cols(), fusion.fc);
  reader.vector("fc_norm.weight", shape.dim, fusion.norm_after);
  if (reader.error()) return *reader.error();
  return fusion;
}

}  // namespace

Result<DflashModel> read_dflash(const GgufFile& file) {
  auto config = read_config(file);
  if (!config) return config.error();
  auto tensors = read_tensors(file, *config);
  if (!tensors) return tensors.error();
  auto fusion = read_fusion(file, *config);
  if (!fusion) return fusion.error();
  return DflashModel{std::move(*config), std::move(*tensors), std::move(*fusion)};
}

}  // namespace edgedraft
