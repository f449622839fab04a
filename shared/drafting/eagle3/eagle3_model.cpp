#include "shared/drafting/eagle3/eagle3_model.h"

#include <string>
#include <utility>

#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/drafter_fit.h"
#include "shared/model/families/layers_of_drafters.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

Result<Eagle3Config> read_eagle3_config(const GgufFile& file, const BundleConfig& sizes) {
  auto layer = read_family_config(file, kLlama.architecture);
  if (!layer) return layer.error();
  const auto layers = file.get_i32s(kEagle3States);
  if (!layers) return layers.error();
  auto states = fused_states(*layers, sizes.target_layer_count, kEagle3States);
  if (!states) return states.error();
  const auto target_dim = read_count(file, kEagle3TargetDim, kWidthMax);
  if (!target_dim) return target_dim.error();
  const auto starts_normed = file.get_bool(kEagle3StartsNormed);
  if (!starts_normed) return starts_normed.error();
  const auto norms_states = file.get_bool(kEagle3NormsStates);
  if (!norms_states) return norms_states.error();
  Eagle3Config config{.layer = std::move(*layer),
                      .states = std::move(*states),
                      .target_dim = *target_dim,
                      .starts_normed = *starts_normed,
                      .norms_states = *norms_states};
  if (auto checked = check_eagle3_sizes(config); !checked) return checked.error();
  return config;
}

}  // namespace

LayerList eagle3_layer(const LayerShape& shape) {
  using L = LayerTensors;
  LayerList list;
  llama_layer({.shape = shape}, list);
  for (const LayerList::Part part : {&L::attn_q, &L::attn_k, &L::attn_v}) {
    list.of(part).cols = 2 * shape.dim;
  }
  return list;
}

Result<void> check_eagle3_sizes(const Eagle3Config& config) {
  const LayerShape& shape = config.layer.layer;
  if (config.layer.layer_count != 1) {
    return Error{Errc::unsupported, "the drafter has " + std::to_string(config.layer.layer_count) +
                                        " layers; an EAGLE-3 drafter has one"};
  }
  if (shape.dim % 2 != 0) {
    return Error{Errc::unsupported,
                 "the width is " + std::to_string(shape.dim) + "; it must be even"};
  }
  if (auto heads = check_heads(shape.heads, "the drafter's layer", kDrafterHeadDimMax); !heads) {
    return heads.error();
  }
  return check_row(std::span(&shape.dim, 1));
}

Result<Eagle3Model> read_eagle3_tensors(const GgufFile& file, const Eagle3Config& config) {
  const std::uint32_t dim = config.layer.layer.dim;
  Eagle3Model model{.network = {.plan = config.layer.plan(0),
                                .rope = config.layer.rope,
                                .is_joined = true,
                                .starts_normed = config.starts_normed},
                    .projection = {.states = config.states,
                                   .target_dim = config.target_dim,
                                   .rms_epsilon = config.layer.layer.rms_epsilon}};
  FeatureModel& network = model.network;
  TensorReader reader(file, "");
  reader.matrix("fc.weight", dim, config.cols(), model.projection.fc);
  if (config.norms_states) {
    reader.vector("enc.output_norm.weight", config.cols(), model.projection.norm_before);
  } else {
    reader.refuse("enc.output_norm.weight");
  }
  reader.vector("output_norm.weight", dim, network.head_norm);
  reader.vector("blk.0.attn_norm_2.weight", dim, network.feature_norm);
  if (reader.error()) return *reader.error();
  auto layer = read_layer_tensors(file, "blk.0.", eagle3_layer(config.layer.layer));
  if (!layer) return layer.error();
  network.layer = std::move(*layer);
  // Before the concatenation; the layer itself has no norm.
  network.embedding_norm = std::exchange(network.layer.attn_norm, {});
  return model;
}

Result<Eagle3Model> read_eagle3(const GgufFile& file) {
  BundleConfig sizes;
  if (auto read = read_bundle_config(file, kEagle3Architecture, sizes); !read) return read.error();
  const auto config = read_eagle3_config(file, sizes);
  if (!config) return config.error();
  const std::uint32_t dim = config->layer.layer.dim;
  if (auto read = read_bundle_vocabulary(file, dim, sizes); !read) return read.error();
  auto model = read_eagle3_tensors(file, *config);
  if (!model) return model.error();
  FeatureModel& network = model->network;
  TensorReader reader(file, "");
  reader.matrix("token_embd.weight", sizes.vocabulary_count, dim, network.token_embd);
  if (file.find_tensor("output.weight") != nullptr || !sizes.draft_tokens.empty()) {
    reader.matrix("output.weight", sizes.head_rows(), dim, network.output.emplace());
  }
  if (reader.error()) return *reader.error();
  network.sizes = std::move(sizes);
  return model;
}

}  // namespace edgedraft
