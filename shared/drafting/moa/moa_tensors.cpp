#include "shared/drafting/moa/moa_tensors.h"

#include <string>
#include <utility>

#include "shared/drafting/moa/moa_keys.h"
#include "shared/model/draft_vocabulary.h"
#include "shared/model/gguf.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

constexpr std::uint32_t kWidthMax = 1u << 20;
constexpr std::uint32_t kLayerCountMax = 1024;

Error bad(std::string message) {
  return {Errc::bad_file, std::move(message)};
}

std::string key(std::string_view prefix, std::string_view name) {
  return std::string(prefix) + std::string(name);
}

Result<std::uint32_t> read_count(const GgufFile& file, const std::string& name, std::uint32_t max) {
  const auto count = file.get_u32(name);
  if (!count) return count.error();
  if (*count == 0 || *count > max) return bad(name + " is " + std::to_string(*count));
  return *count;
}

Result<float> read_epsilon(const GgufFile& file, const std::string& name) {
  const auto epsilon = file.get_f32(name);
  if (!epsilon) return epsilon.error();
  if (!(*epsilon >= 0.0f && *epsilon < 1.0f)) return bad(name + " is impossible");
  return *epsilon;
}

Result<LayerShape> read_shape(const GgufFile& file, std::string_view prefix) {
  LayerShape shape;
  const std::pair<std::string_view, std::uint32_t*> fields[] = {
      {moa_keys::kDim, &shape.dim},
      {moa_keys::kFfnDim, &shape.ffn_dim},
      {moa_keys::kQueryHeads, &shape.heads.query_heads},
      {moa_keys::kKvHeads, &shape.heads.kv_heads},
      {moa_keys::kHeadDim, &shape.heads.head_dim},
  };
  for (const auto& [name, field] : fields) {
    const auto count = read_count(file, key(prefix, name), kWidthMax);
    if (!count) return count.error();
    *field = *count;
  }
  const auto epsilon = read_epsilon(file, key(prefix, moa_keys::kEpsilon));
  if (!epsilon) return epsilon.error();
  shape.rms_epsilon = *epsilon;
  if (auto checked = check_heads(shape.heads, std::string(prefix)); !checked) {
    return checked.error();
  }
  return shape;
}

Result<RopeConfig> read_rope(const GgufFile& file, std::string_view prefix,
                             const std::string& tensor_prefix, std::uint32_t head_dim) {
  RopeConfig rope;
  const auto theta = file.get_f32(key(prefix, moa_keys::kTheta));
  if (!theta) return theta.error();
  if (!(*theta > 1.0f)) return bad(key(prefix, moa_keys::kTheta) + " is not above 1");
  rope.theta = *theta;
  const auto style = file.get_string(key(prefix, moa_keys::kStyle));
  if (!style) return style.error();
  if (*style != "pairs" && *style != "halves") {
    return bad(key(prefix, moa_keys::kStyle) + " is neither pairs nor halves");
  }
  rope.style = *style == "pairs" ? RopeStyle::pairs : RopeStyle::halves;
  const std::string divisors = tensor_prefix + std::string(moa_keys::kDivisors);
  if (file.find_tensor(divisors) != nullptr) {
    auto read = read_divisor_tensor(file, divisors, head_dim / 2);
    if (!read) return read.error();
    rope.frequency_divisors = std::move(*read);
  }
  return rope;
}

struct LayerConfig {
  LayerShape& shape;
  RopeConfig& rope;
  std::string_view prefix;
  std::string tensor_prefix;
};

Result<void> check_config(const MoaConfig& config) {
  if (config.self_attention.dim != config.target_layer.dim ||
      config.cross_attention.dim != config.target_layer.dim) {
    return bad("the drafter's layers are not as wide as the target's");
  }
  if (config.layer_self_attention.dim != 2 * config.target_layer.heads.kv_cols()) {
    return bad("the drafter's LSA is not as wide as the target's keys and values");
  }
  if (config.tli > config.target_layer_count) {
    return bad("edgedraft.tli is more than the target has layers");
  }
  return {};
}

}  // namespace

Result<MoaConfig> read_moa_config(const GgufFile& file) {
  const auto architecture = file.architecture();
  if (!architecture) return architecture.error();
  if (*architecture != kMoaArchitecture) {
    return bad("the architecture is '" + std::string(*architecture) + "', not " +
               std::string(kMoaArchitecture));
  }
  MoaConfig config;
  const LayerConfig layers[] = {
      {config.self_attention, config.sa_rope, moa_keys::kSa, "sa."},
      {config.cross_attention, config.ca_rope, moa_keys::kCa, "ca."},
      {config.layer_self_attention, config.lsa_rope, moa_keys::kLsa, "lsa."},
      {config.target_layer, config.target_rope, moa_keys::kTarget, "target."},
  };
  for (const LayerConfig& layer : layers) {
    auto shape = read_shape(file, layer.prefix);
    if (!shape) return shape.error();
    layer.shape = *shape;
    auto rope = read_rope(file, layer.prefix, layer.tensor_prefix, shape->heads.head_dim);
    if (!rope) return rope.error();
    layer.rope = std::move(*rope);
  }
  const auto tli = file.get_u32(moa_keys::kTli);
  if (!tli) return tli.error();
  config.tli = *tli;
  const auto context = read_count(file, std::string(moa_keys::kContextLength), 0x7FFFFFFFu);
  if (!context) return context.error();
  config.context_length = *context;
  const auto layer_count =
      read_count(file, std::string(moa_keys::kTargetLayerCount), kLayerCountMax);
  if (!layer_count) return layer_count.error();
  config.target_layer_count = *layer_count;
  const auto epsilon = read_epsilon(file, std::string(moa_keys::kOutputNormEpsilon));
  if (!epsilon) return epsilon.error();
  config.output_norm_epsilon = *epsilon;

  const GgufTensor* table = file.find_tensor("token_embd.weight");
  if (table == nullptr) return missing_tensor("token_embd.weight");
  if (table->rows() > kVocabularyCountMax) return wrong_shape(*table, 0, config.target_layer.dim);
  config.vocabulary_count = static_cast<std::uint32_t>(table->rows());
  auto draft_tokens = read_draft_tokens(file, config.vocabulary_count);
  if (!draft_tokens) return draft_tokens.error();
  config.draft_tokens = std::move(*draft_tokens);
  if (auto checked = check_config(config); !checked) return checked.error();
  return config;
}

Result<MoaTensors> read_moa_tensors(const GgufFile& file, const MoaConfig& config) {
  const std::uint32_t dim = config.target_layer.dim;
  MoaTensors tensors;
  TensorReader reader(file, "");
  reader.matrix("token_embd.weight", config.vocabulary_count, dim, tensors.token_embd);
  if (file.find_tensor("output.weight") != nullptr || !config.draft_tokens.empty()) {
    reader.matrix("output.weight", config.head_rows(), dim, tensors.output.emplace());
  }
  reader.vector("output_norm.weight", dim, tensors.output_norm);
  reader.matrix("ekv2e.weight", dim, config.layer_self_attention.dim, tensors.ekv2e);
  reader.vector("ekv2e.bias", dim, tensors.ekv2e_bias);
  if (reader.error()) return *reader.error();

  const struct {
    const char* prefix;
    const LayerShape& shape;
    LayerTensors& out;
  } layers[] = {
      {"sa.", config.self_attention, tensors.self_attention},
      {"ca.", config.cross_attention, tensors.cross_attention},
      {"lsa.", config.layer_self_attention, tensors.layer_self_attention},
  };
  for (const auto& layer : layers) {
    auto read = read_layer_tensors(file, layer.prefix, layer.shape);
    if (!read) return read.error();
    layer.out = *read;
  }
  for (std::uint32_t i = 0; i < config.tli; ++i) {
    auto layer = read_layer_tensors(file, "tli." + std::to_string(i) + ".", config.target_layer);
    if (!layer) return layer.error();
    tensors.tli.push_back(*layer);
  }
  return tensors;
}

Result<MoaModel> read_moa(const GgufFile& file) {
  auto config = read_moa_config(file);
  if (!config) return config.error();
  auto tensors = read_moa_tensors(file, *config);
  if (!tensors) return tensors.error();
  return MoaModel{std::move(*config), std::move(*tensors)};
}

}  // namespace edgedraft
