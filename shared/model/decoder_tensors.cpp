#include "shared/model/decoder_tensors.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "shared/model/draft_vocabulary.h"
#include "shared/model/gguf.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

constexpr std::uint32_t kHeadDimMax = 256;

Result<HeadShape> read_heads(const GgufFile& file, const std::string& prefix, std::uint32_t dim) {
  const auto query_heads = read_count(file, prefix + "attention.head_count", kWidthMax);
  if (!query_heads) return query_heads.error();
  const auto kv_heads = file.get_u32_or(prefix + "attention.head_count_kv", *query_heads);
  if (!kv_heads) return kv_heads.error();
  const auto head_dim = file.get_u32_or(prefix + "attention.key_length", dim / *query_heads);
  if (!head_dim) return head_dim.error();
  const auto value_dim = file.get_u32_or(prefix + "attention.value_length", *head_dim);
  if (!value_dim) return value_dim.error();
  if (*value_dim != *head_dim) {
    return Error{Errc::unsupported, prefix + "attention.value_length differs from key_length"};
  }
  const HeadShape heads{*query_heads, *kv_heads, *head_dim};
  if (auto checked = check_heads(heads, prefix + "attention"); !checked) return checked.error();
  return heads;
}

// Frequency divisors: linear scaling by a factor, a stored vector, or both. In old files a factor
// without a type means linear; 0 means none.
Result<std::vector<float>> read_divisors(const GgufFile& file, const std::string& prefix,
                                         std::uint32_t head_dim) {
  std::vector<float> divisors;
  if (file.find_tensor("rope_freqs.weight") != nullptr) {
    auto stored = read_divisor_tensor(file, "rope_freqs.weight", head_dim / 2);
    if (!stored) return stored.error();
    divisors = std::move(*stored);
  }
  const auto type = file.get_string_or(prefix + "rope.scaling.type", "linear");
  if (!type) return type.error();
  if (*type == "none") return divisors;
  if (*type != "linear") {
    return Error{Errc::unsupported, "rotary scaling '" + std::string(*type) +
                                        "' is not supported; linear and llama3 scaling are"};
  }
  const auto old_factor = file.get_f32_or(prefix + "rope.scale_linear", 1.0f);
  if (!old_factor) return old_factor.error();
  const auto factor = file.get_f32_or(prefix + "rope.scaling.factor", *old_factor);
  if (!factor) return factor.error();
  if (!(*factor >= 0.0f && std::isfinite(*factor))) {
    return bad_file(prefix + "rope.scaling.factor is not a finite positive number");
  }
  if (*factor == 0.0f || *factor == 1.0f) return divisors;
  if (divisors.empty()) divisors.assign(head_dim / 2, 1.0f);
  for (float& divisor : divisors) divisor *= *factor;
  return divisors;
}

Result<RopeConfig> read_rope(const GgufFile& file, const std::string& architecture,
                             std::uint32_t head_dim) {
  const std::string prefix = architecture + ".";
  const auto theta = file.get_f32_or(prefix + "rope.freq_base", 10000.0f);
  if (!theta) return theta.error();
  if (!(*theta > 1.0f && std::isfinite(*theta))) {
    return bad_file(prefix + "rope.freq_base is not a finite number above 1");
  }
  const auto rotated = file.get_u32_or(prefix + "rope.dimension_count", head_dim);
  if (!rotated) return rotated.error();
  if (*rotated != head_dim) {
    return Error{Errc::unsupported, prefix + "rope.dimension_count is " + std::to_string(*rotated) +
                                        ", the head size " + std::to_string(head_dim) +
                                        ": partial rotary embeddings are not supported"};
  }
  auto divisors = read_divisors(file, prefix, head_dim);
  if (!divisors) return divisors.error();
  return RopeConfig{.theta = *theta,
                    .style = architecture == "llama" ? RopeStyle::pairs : RopeStyle::halves,
                    .frequency_divisors = std::move(*divisors)};
}

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

// True for a model's tensors, and a layer's after "blk.N.". An unknown tensor would be ignored by
// the computation, so its file holds another kind of model.
bool is_known(std::string_view name) {
  constexpr std::string_view kModel[] = {"token_embd.weight", "output_norm.weight", "output.weight",
                                         "rope_freqs.weight"};
  constexpr std::string_view kLayer[] = {
      "attn_norm.weight",   "attn_q.weight",   "attn_k.weight", "attn_v.weight",
      "attn_output.weight", "attn_q.bias",     "attn_k.bias",   "attn_v.bias",
      "ffn_norm.weight",    "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight",
      "attn_rot_embd"};  // the last: frequencies in old files, implied by the configuration
  if (!name.starts_with("blk.")) return std::ranges::find(kModel, name) != std::end(kModel);
  name.remove_prefix(std::min(name.find('.', 4), name.size() - 1) + 1);
  return std::ranges::find(kLayer, name) != std::end(kLayer);
}

Result<void> refuse_unknown_tensors(const GgufFile& file) {
  for (const GgufTensor& tensor : file.tensors()) {
    if (is_known(tensor.name)) continue;
    return Error{Errc::unsupported,
                 "the tensor " + std::string(tensor.name) +
                     " does not belong to a plain llama or qwen2 model; ignoring "
                     "it would make answers wrong"};
  }
  return {};
}

// Without this check the error would be a missing tensor.
Result<void> refuse_experts(const GgufFile& file, const std::string& prefix) {
  const auto experts = file.get_u32_or(prefix + "expert_count", 0);
  if (!experts) return experts.error();
  if (*experts > 0) {
    return Error{Errc::unsupported, "mixtures of experts are not supported"};
  }
  return {};
}

// Refuses keys of other kinds of models, which some programs apply to any: ignoring them would give
// wrong answers.
Result<void> refuse_other_attention(const GgufFile& file, const std::string& prefix,
                                    std::uint32_t context_length) {
  const std::string window_key = prefix + "attention.sliding_window";
  const auto window = file.get_u32_or(window_key, 0);
  if (!window) return window.error();
  // A window at least as long as the context has no effect.
  if (*window > 0 && *window < context_length) {
    return Error{Errc::unsupported, window_key + " is " + std::to_string(*window) +
                                        ", the context length " + std::to_string(context_length) +
                                        ": sliding-window attention is not supported"};
  }
  const std::string pattern_key = window_key + "_pattern";
  if (file.find_value(pattern_key) != nullptr) {
    return Error{Errc::unsupported,
                 pattern_key + ": layers that differ in their attention are not supported"};
  }
  const std::string causal_key = prefix + "attention.causal";
  const auto causal = file.get_bool_or(causal_key, true);
  if (!causal) return causal.error();
  if (!*causal) {
    return Error{Errc::unsupported,
                 causal_key + " is false: bidirectional attention is not supported"};
  }
  return {};
}

// As above for numbers, each with its neutral value; 0 means none.
Result<void> refuse_other_factors(const GgufFile& file, const std::string& prefix,
                                  std::uint32_t head_dim) {
  constexpr float kRounding = 1e-5f;  // some files round a root to a few decimals
  const std::pair<const char*, float> factors[] = {
      {"attn_logit_softcapping", 0.0f},
      {"final_logit_softcapping", 0.0f},
      {"logit_scale", 1.0f},
      {"embedding_scale", 1.0f},
      {"residual_scale", 1.0f},
      {"rope.scaling.attn_factor", 1.0f},
      {"attention.scale", 1.0f / std::sqrt(static_cast<float>(head_dim))}};
  for (const auto& [name, neutral] : factors) {
    const std::string key = prefix + name;
    const auto factor = file.get_f32_or(key, 0.0f);
    if (!factor) return factor.error();
    if (*factor != 0.0f && !(std::abs(*factor - neutral) <= kRounding * neutral)) {
      return Error{Errc::unsupported, key + " is " + std::to_string(*factor) +
                                          ", which a plain llama or qwen2 model does not have"};
    }
  }
  return {};
}

}  // namespace

Result<void> check_heads(const HeadShape& heads, const std::string& what) {
  if (heads.query_heads == 0 || heads.kv_heads == 0 || heads.query_heads % heads.kv_heads != 0) {
    return bad_file(what + ": " + std::to_string(heads.query_heads) + " query heads over " +
                    std::to_string(heads.kv_heads) + " key heads");
  }
  if (heads.head_dim == 0 || heads.head_dim % 2 != 0 || heads.head_dim > kHeadDimMax) {
    return Error{Errc::unsupported, what + ": the head size is " + std::to_string(heads.head_dim) +
                                        "; it must be even and at most 256"};
  }
  if (heads.query_heads > kWidthMax / heads.head_dim) return bad_file(what + ": too many heads");
  return {};
}

Result<DecoderConfig> read_decoder_config(const GgufFile& file) {
  const auto architecture = file.architecture();
  if (!architecture) return architecture.error();
  DecoderConfig config;
  config.architecture = *architecture;
  if (config.architecture != "llama" && config.architecture != "qwen2") {
    return Error{Errc::unsupported, "the architecture '" + config.architecture +
                                        "' is not supported; llama and qwen2 are"};
  }
  const std::string prefix = config.architecture + ".";
  if (auto checked = refuse_experts(file, prefix); !checked) return checked.error();
  const auto layer_count = read_count(file, prefix + "block_count", kLayerCountMax);
  if (!layer_count) return layer_count.error();
  const auto context_length = read_count(file, prefix + "context_length", 0x7FFFFFFFu);
  if (!context_length) return context_length.error();
  const auto dim = read_count(file, prefix + "embedding_length", kWidthMax);
  if (!dim) return dim.error();
  const auto ffn_dim = read_count(file, prefix + "feed_forward_length", kWidthMax);
  if (!ffn_dim) return ffn_dim.error();
  const auto epsilon = file.get_f32(prefix + "attention.layer_norm_rms_epsilon");
  if (!epsilon) return epsilon.error();
  if (!(*epsilon >= 0.0f && *epsilon < 1.0f)) return bad_file("invalid layer_norm_rms_epsilon");
  const auto heads = read_heads(file, prefix, *dim);
  if (!heads) return heads.error();
  if (auto checked = refuse_other_attention(file, prefix, *context_length); !checked) {
    return checked.error();
  }
  if (auto checked = refuse_other_factors(file, prefix, heads->head_dim); !checked) {
    return checked.error();
  }
  auto rope = read_rope(file, config.architecture, heads->head_dim);
  if (!rope) return rope.error();
  const auto vocabulary_count = read_vocabulary_count(file, *dim);
  if (!vocabulary_count) return vocabulary_count.error();
  auto draft_tokens = read_draft_tokens(file, *vocabulary_count);
  if (!draft_tokens) return draft_tokens.error();

  config.vocabulary_count = *vocabulary_count;
  config.layer_count = *layer_count;
  config.context_length = *context_length;
  config.layer = {.dim = *dim, .heads = *heads, .ffn_dim = *ffn_dim, .rms_epsilon = *epsilon};
  config.rope = std::move(*rope);
  config.draft_tokens = std::move(*draft_tokens);
  return config;
}

Result<LayerTensors> read_layer_tensors(const GgufFile& file, const std::string& prefix,
                                        const LayerShape& shape) {
  const std::uint32_t query_cols = shape.heads.query_cols();
  const std::uint32_t kv_cols = shape.heads.kv_cols();
  LayerTensors layer;
  TensorReader reader(file, prefix);
  reader.optional_vector("attn_norm.weight", shape.dim, layer.attn_norm);
  reader.matrix("attn_q.weight", query_cols, shape.dim, layer.attn_q);
  reader.matrix("attn_k.weight", kv_cols, shape.dim, layer.attn_k);
  reader.matrix("attn_v.weight", kv_cols, shape.dim, layer.attn_v);
  reader.matrix("attn_output.weight", shape.dim, query_cols, layer.attn_output);
  reader.optional_vector("attn_q.bias", query_cols, layer.attn_q_bias);
  reader.optional_vector("attn_k.bias", kv_cols, layer.attn_k_bias);
  reader.optional_vector("attn_v.bias", kv_cols, layer.attn_v_bias);
  reader.vector("ffn_norm.weight", shape.dim, layer.ffn_norm);
  reader.matrix("ffn_gate.weight", shape.ffn_dim, shape.dim, layer.ffn_gate);
  reader.matrix("ffn_up.weight", shape.ffn_dim, shape.dim, layer.ffn_up);
  reader.matrix("ffn_down.weight", shape.dim, shape.ffn_dim, layer.ffn_down);
  reader.refuse("attn_output.bias");
  if (reader.error()) return *reader.error();
  return layer;
}

Result<DecoderTensors> read_decoder_tensors(const GgufFile& file, const DecoderConfig& config) {
  DecoderTensors tensors;
  TensorReader reader(file, "");
  reader.matrix("token_embd.weight", config.vocabulary_count, config.layer.dim, tensors.token_embd);
  reader.vector("output_norm.weight", config.layer.dim, tensors.output_norm);
  if (file.find_tensor("output.weight") != nullptr || !config.draft_tokens.empty()) {
    reader.matrix("output.weight", config.head_rows(), config.layer.dim, tensors.output.emplace());
  }
  if (reader.error()) return *reader.error();
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    auto layer = read_layer_tensors(file, prefix, config.layer);
    if (!layer) return layer.error();
    if (!layer->attn_norm.present()) return missing_tensor(prefix + "attn_norm.weight");
    tensors.layers.push_back(*layer);
  }
  if (file.find_tensor("blk." + std::to_string(config.layer_count) + ".attn_norm.weight") !=
      nullptr) {
    return bad_file("the file has more layers than its block_count says");
  }
  if (auto checked = refuse_unknown_tensors(file); !checked) return checked.error();
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
  for (const TensorView* matrix : {&layer.attn_q, &layer.attn_k, &layer.attn_v, &layer.attn_output,
                                   &layer.ffn_gate, &layer.ffn_up, &layer.ffn_down}) {
    bytes += matrix->bytes.size();
  }
  return bytes;
}

}  // namespace edgedraft
