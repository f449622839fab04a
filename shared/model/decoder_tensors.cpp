#include "shared/model/decoder_tensors.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <utility>

#include "shared/model/draft_vocabulary.h"
#include "shared/model/families/family.h"
#include "shared/model/gguf.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

constexpr const char* kLayerEmbd = "per_layer_token_embd.weight";
constexpr const char* kLayerEmbdProjection = "per_layer_model_proj.weight";
constexpr const char* kLayerEmbdNorm = "per_layer_proj_norm.weight";
constexpr std::string_view kLayerEmbdTensors[] = {kLayerEmbd, kLayerEmbdProjection, kLayerEmbdNorm};

// Checks the vocabulary against the tokenizer, if there is one.
Result<std::uint32_t> read_vocabulary_count(const GgufFile& file, std::uint32_t dim) {
  const GgufTensor* table = file.find_tensor("token_embd.weight");
  if (table == nullptr) return missing_tensor("token_embd.weight");
  if (table->dims.size() != 2 || table->cols() != dim || table->rows() > kVocabularyCountMax) {
    return wrong_shape(*table, 0, dim);
  }
  const GgufValue* tokens = file.find_value("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->count != table->rows()) {
    return bad_file("the tokenizer has " + std::to_string(tokens->count) +
                    " entries, the embedding " + std::to_string(table->rows()) + " rows");
  }
  return static_cast<std::uint32_t>(table->rows());
}

// The number of a layer's tensor and its name after that; nullopt for another tensor's.
std::optional<std::pair<std::uint32_t, std::string_view>> layer_name(std::string_view name) {
  if (!name.starts_with("blk.")) return std::nullopt;
  name.remove_prefix(4);
  std::uint32_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc{} || end == name.data() + name.size() || *end != '.') return std::nullopt;
  return std::pair(layer, name.substr(static_cast<std::size_t>(end + 1 - name.data())));
}

bool is_named(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::any_of(names, [&](std::string_view known) {
    return known.ends_with('.') ? name.starts_with(known) : name == known;
  });
}

// An unknown tensor would be ignored by the computation, so its file holds another kind of model.
Result<void> refuse_unknown_tensors(const GgufFile& file, const Family& family,
                                    const DecoderConfig& config, std::span<const LayerList> lists) {
  const std::string_view of_model[] = {"token_embd.weight", family.output_norm, "output.weight",
                                       "rope_freqs.weight"};
  for (const GgufTensor& tensor : file.tensors()) {
    if (is_named(of_model, tensor.name) || is_named(family.other_tensors, tensor.name)) continue;
    if (config.layer_embedding_dim() > 0 && is_named(kLayerEmbdTensors, tensor.name)) continue;
    const auto layer = layer_name(tensor.name);
    if (layer && layer->first < config.layer_count) {
      // Frequencies in old files, implied by the configuration.
      if (layer->second == "attn_rot_embd") continue;
      const std::string prefix = "blk." + std::to_string(layer->first) + ".";
      const auto is_read = [&](const LayerTensor& known) {
        if (known.name == layer->second) return true;
        return !known.joined.empty() && known.joined == layer->second &&
               file.find_tensor(prefix + std::string(known.name)) == nullptr;
      };
      if (std::ranges::any_of(lists[layer->first].tensors(), is_read)) continue;
    }
    if (layer && layer->first >= config.layer_count) {
      if (layer->first < config.layer_count + config.other_layer_count) continue;
      return bad_file("the file has more layers than its block_count says");
    }
    return Error{Errc::unsupported, "the tensor " + std::string(tensor.name) +
                                        " does not belong to a plain " + config.architecture +
                                        " model; ignoring it would make answers wrong"};
  }
  return {};
}

}  // namespace

Result<void> check_heads(const HeadShape& heads, const std::string& what,
                         std::uint32_t head_dim_max) {
  if (heads.query_heads == 0 || heads.kv_heads == 0 || heads.query_heads % heads.kv_heads != 0) {
    return bad_file(what + ": " + std::to_string(heads.query_heads) + " query heads over " +
                    std::to_string(heads.kv_heads) + " key heads");
  }
  if (heads.head_dim == 0 || heads.head_dim % 2 != 0 || heads.head_dim > head_dim_max) {
    return Error{Errc::unsupported, what + ": the head size is " + std::to_string(heads.head_dim) +
                                        "; it must be even and at most " +
                                        std::to_string(head_dim_max)};
  }
  if (heads.query_heads > kWidthMax / heads.head_dim) return bad_file(what + ": too many heads");
  return {};
}

Result<DecoderConfig> read_family_config(const GgufFile& file, std::string_view architecture) {
  return read_family_config(file, file, architecture);
}

Result<DecoderConfig> read_family_config(const GgufFile& file, const GgufKeys& keys,
                                         std::string_view architecture) {
  const auto family = find_family(architecture);
  if (!family) return family.error();
  auto config = read_plan(keys, **family);
  if (!config) return config.error();
  const auto stored = (*family)->rope_tensors != nullptr ? (*family)->rope_tensors(file, *config)
                                                         : read_rope_freqs(file, config->rope);
  if (!stored) return stored.error();
  return config;
}

Result<DecoderConfig> read_decoder_config(const GgufFile& file) {
  const auto architecture = file.architecture();
  if (!architecture) return architecture.error();
  auto config = read_family_config(file, *architecture);
  if (!config) return config.error();
  const auto vocabulary_count = read_vocabulary_count(file, config->layer.dim);
  if (!vocabulary_count) return vocabulary_count.error();
  auto draft_tokens = read_draft_tokens(file, *vocabulary_count);
  if (!draft_tokens) return draft_tokens.error();
  config->vocabulary_count = *vocabulary_count;
  config->draft_tokens = std::move(*draft_tokens);
  return config;
}

Result<LayerTensors> read_layer_tensors(const GgufFile& file, const std::string& prefix,
                                        const LayerList& list) {
  LayerTensors layer;
  TensorReader reader(file, prefix);
  for (const LayerTensor& tensor : list.tensors()) {
    if (tensor.kind != LayerTensor::Kind::unused) reader.part(tensor, layer.*tensor.part);
  }
  if (reader.error()) return *reader.error();
  return layer;
}

Result<LayerTensors> read_family_layer(const GgufFile& file, const std::string& prefix,
                                       std::string_view architecture, const LayerPlan& plan) {
  const auto family = find_family(architecture);
  if (!family) return family.error();
  LayerList list;
  (*family)->tensors(plan, list);
  return read_layer_tensors(file, prefix, list);
}

Result<LayerTensors> read_layer_tensors(const GgufFile& file, const std::string& prefix,
                                        const LayerShape& shape) {
  return read_layer_tensors(file, prefix, drafter_layer(shape));
}

Result<DecoderTensors> read_decoder_tensors(const GgufFile& file, const DecoderConfig& config) {
  const auto family = find_family(config.architecture);
  if (!family) return family.error();
  DecoderTensors tensors;
  TensorReader reader(file, "");
  reader.matrix("token_embd.weight", config.vocabulary_count, config.layer.dim, tensors.token_embd);
  reader.vector(std::string((*family)->output_norm), config.layer.dim, tensors.output_norm);
  if (file.find_tensor("output.weight") != nullptr || !config.draft_tokens.empty()) {
    reader.matrix("output.weight", config.head_rows(), config.layer.dim, tensors.output.emplace());
  }
  if (config.layer_embedding_dim() > 0) {
    const std::uint32_t cols = config.layer_count * config.layer_embedding_dim();
    reader.matrix(kLayerEmbd, config.vocabulary_count, cols, tensors.layer_embd);
    reader.matrix(kLayerEmbdProjection, cols, config.layer.dim, tensors.layer_embd_projection);
    reader.vector(kLayerEmbdNorm, config.layer_embedding_dim(), tensors.layer_embd_norm);
  }
  if (reader.error()) return *reader.error();
  std::vector<LayerList> lists;
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    (*family)->tensors(config.plan(i), lists.emplace_back());
    auto layer = read_layer_tensors(file, "blk." + std::to_string(i) + ".", lists.back());
    if (!layer) return layer.error();
    tensors.layers.push_back(*layer);
  }
  if (auto checked = refuse_unknown_tensors(file, **family, config, lists); !checked) {
    return checked.error();
  }
  return tensors;
}

Result<DecoderModel> read_decoder(const GgufFile& file) {
  if (file.find_value(kDraftVocabularyKey) != nullptr) {
    return Error{Errc::unsupported,
                 "this is a drafter with a reduced vocabulary, not a complete model; give it with "
                 "--bundle"};
  }
  return read_draft_decoder(file);
}

Result<DecoderModel> read_draft_decoder(const GgufFile& file) {
  auto config = read_decoder_config(file);
  if (!config) return config.error();
  auto tensors = read_decoder_tensors(file, *config);
  if (!tensors) return tensors.error();
  return DecoderModel{std::move(*config), std::move(*tensors)};
}

std::uint64_t matrix_bytes(const LayerTensors& layer) {
  std::uint64_t bytes = 0;
  for_each_part(layer, layer, [&](const TensorView& part, const TensorView&, PartKind kind) {
    if (kind == PartKind::matrix && part.present())
      bytes += part.rows * *row_bytes(part.type, part.cols);
  });
  return bytes;
}

}  // namespace edgedraft
