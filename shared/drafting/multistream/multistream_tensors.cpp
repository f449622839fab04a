#include "shared/drafting/multistream/multistream_tensors.h"

#include <string>
#include <utility>

#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/drafter_fit.h"
#include "shared/model/draft_vocabulary.h"
#include "shared/model/tensor_shapes.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {
namespace {

Result<MultistreamConfig> read_stream_config(const GgufFile& file) {
  MultistreamConfig config;
  if (auto read = read_bundle_config(file, kMultistreamArchitecture, config); !read) {
    return read.error();
  }
  const struct {
    std::string_view key;
    std::uint32_t max;
    std::uint32_t& out;
  } counts[] = {
      {kBundleVocabularyCountKey, kVocabularyCountMax, config.vocabulary_count},
      {kMultistreamStreams, kTreeDepthMax, config.stream_count},
      {kMultistreamLayers, config.target_layer_count, config.layer_count},
  };
  for (const auto& count : counts) {
    const auto value = read_count(file, count.key, count.max);
    if (!value) return value.error();
    count.out = *value;
  }
  auto layer = read_bundle_layer(file, kMultistreamLayer, "target.");
  if (!layer) return layer.error();
  config.layer = layer->shape;
  config.rope = std::move(layer->rope);
  auto draft_tokens = read_draft_tokens(file, config.vocabulary_count);
  if (!draft_tokens) return draft_tokens.error();
  config.draft_tokens = std::move(*draft_tokens);
  // Check now: the layers in the file bound the number of groups.
  if (auto row = check_row(multistream_groups(config)); !row) return row.error();
  return config;
}

Result<MultistreamTensors> read_stream_tensors(const GgufFile& file,
                                               const MultistreamConfig& config) {
  const std::uint32_t dim = config.layer.dim;
  const std::uint32_t rank = config.layer.ffn_dim;
  MultistreamTensors tensors;
  TensorReader reader(file, "");
  read_head(file, config, dim, reader, tensors.output);
  reader.vector("output_norm.weight", dim, tensors.output_norm);
  for (std::uint32_t j = 0; j < config.stream_count; ++j) {
    reader.vector("stream." + std::to_string(j) + ".embedding", dim,
                  tensors.embeddings.emplace_back());
  }
  for (std::uint32_t i = 0; i < config.layer_count && !reader.error(); ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    MultistreamTensors::Adapter& adapter = tensors.adapters.emplace_back();
    reader.matrix(prefix + "adapter_down.weight", rank, dim, adapter.down);
    reader.matrix(prefix + "adapter_up.weight", dim, rank, adapter.up);
    LayerTensors& layer = tensors.layers.emplace_back();
    TensorReader of_layer(file, prefix);
    const LayerList list = stream_layer(config.layer);
    for (const LayerTensor& tensor : list.tensors()) of_layer.part(tensor, layer.*tensor.part);
    if (of_layer.error()) return *of_layer.error();
  }
  if (reader.error()) return *reader.error();
  return tensors;
}

}  // namespace

LayerList stream_layer(const LayerShape& shape) {
  LayerList list;
  list.attention({.shape = shape});
  list.ffn_norm({.shape = shape});
  return list;
}

std::vector<std::uint32_t> multistream_groups(const MultistreamConfig& config) {
  const HeadShape& heads = config.layer.heads;
  std::vector<std::uint32_t> groups{config.layer.dim};
  groups.insert(groups.end(), std::size_t{2} * heads.kv_heads * config.layer_count, heads.head_dim);
  return groups;
}

Result<MultistreamModel> read_multistream(const GgufFile& file) {
  auto config = read_stream_config(file);
  if (!config) return config.error();
  auto tensors = read_stream_tensors(file, *config);
  if (!tensors) return tensors.error();
  return MultistreamModel{std::move(*config), std::move(*tensors)};
}

}  // namespace edgedraft
