#include "shared/drafting/eagle/eagle_tensors.h"

#include <algorithm>
#include <utility>

#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/drafter_fit.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

constexpr std::size_t kVariantBytesMax = 32;

Result<EagleConfig> read_eagle_config(const GgufFile& file) {
  EagleConfig config;
  if (auto read = read_bundle_config(file, kEagleArchitecture, config); !read) return read.error();
  auto layer = read_bundle_layer(file, kEagleLayerPrefix, "layer.");
  if (!layer) return layer.error();
  config.layer = layer->shape;
  config.rope = std::move(layer->rope);
  if (config.layer.dim % 2 != 0) {
    return Error{Errc::unsupported,
                 "the width is " + std::to_string(config.layer.dim) + "; it must be even"};
  }
  if (auto row = check_row(std::span(&config.layer.dim, 1)); !row) return row.error();
  const auto variant = file.get_string_or(kEagleVariant, "");
  if (!variant) return variant.error();
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (variant->size() > kVariantBytesMax || !std::ranges::all_of(*variant, is_plain)) {
    return bad_file(std::string(kEagleVariant) + " is not a name of lower-case letters and digits");
  }
  config.variant = *variant;
  if (auto read = read_bundle_vocabulary(file, config.layer.dim, config); !read)
    return read.error();
  return config;
}

Result<EagleTensors> read_eagle_tensors(const GgufFile& file, const EagleConfig& config) {
  const std::uint32_t dim = config.layer.dim;
  EagleTensors tensors;
  TensorReader reader(file, "");
  reader.matrix("token_embd.weight", config.vocabulary_count, dim, tensors.token_embd);
  if (file.find_tensor("output.weight") != nullptr || !config.draft_tokens.empty()) {
    reader.matrix("output.weight", config.head_rows(), dim, tensors.output.emplace());
  }
  reader.matrix("fc_embd.weight", dim, dim, tensors.fc_embedding);
  reader.matrix("fc_feature.weight", dim, dim, tensors.fc_feature);
  reader.optional_vector("fc.bias", dim, tensors.fc_bias);
  if (reader.error()) return *reader.error();
  auto layer = read_layer_tensors(file, "layer.", config.layer);
  if (!layer) return layer.error();
  tensors.layer = std::move(*layer);
  return tensors;
}

}  // namespace

FeatureModel feature_model(const EagleConfig& config, const EagleTensors& tensors) {
  return {.sizes = config,
          .plan = {.shape = config.layer},
          .rope = config.rope,
          .token_embd = tensors.token_embd,
          .output = tensors.output,
          .embedding_norm = {},
          .feature_norm = {},
          .fc_embedding = tensors.fc_embedding,
          .fc_feature = tensors.fc_feature,
          .fc_bias = tensors.fc_bias,
          .layer = tensors.layer,
          .output_norm = {}};
}

Result<EagleModel> read_eagle(const GgufFile& file) {
  auto config = read_eagle_config(file);
  if (!config) return config.error();
  auto tensors = read_eagle_tensors(file, *config);
  if (!tensors) return tensors.error();
  return EagleModel{std::move(*config), std::move(*tensors)};
}

}  // namespace edgedraft
