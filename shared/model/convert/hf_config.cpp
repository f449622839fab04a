#include "shared/model/convert/hf_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "shared/model/json_file.h"
#include "shared/model/tensor_shapes.h"
#include "shared/model/tokenizer/vocabulary.h"

namespace edgedraft {
namespace {

using nlohmann::json;

Error bad_key(const char* key, std::string_view what) {
  std::string message(1, '"');
  message.append(key).append("\" is ").append(what);
  return bad_file(std::move(message));
}

Result<std::string> read_architecture(const json& config) {
  const auto found = config.find("architectures");
  std::string name;
  if (found != config.end() && found->is_array() && !found->empty() && (*found)[0].is_string()) {
    name = (*found)[0].get<std::string>();
  }
  if (name == "LlamaForCausalLM") return std::string("llama");
  if (name == "Qwen2ForCausalLM") return std::string("qwen2");
  return Error{Errc::unsupported,
               "the architecture '" + name +
                   "' is not supported; LlamaForCausalLM and Qwen2ForCausalLM are"};
}

Result<std::uint32_t> read_size(const json& config, const char* key,
                                std::optional<std::uint32_t> fallback) {
  const auto value = json_u32(config, key);
  if (!value) return value.error();
  if (!*value && !fallback) return bad_key(key, "missing");
  const std::uint32_t size = value->value_or(fallback.value_or(0));
  if (size == 0) return bad_key(key, "zero");
  return size;
}

Result<void> read_sizes(const json& config, DecoderConfig& out) {
  const auto dim = read_size(config, "hidden_size", {});
  if (!dim) return dim.error();
  const auto layer_count = read_size(config, "num_hidden_layers", {});
  if (!layer_count) return layer_count.error();
  const auto ffn_dim = read_size(config, "intermediate_size", {});
  if (!ffn_dim) return ffn_dim.error();
  const auto query_heads = read_size(config, "num_attention_heads", {});
  if (!query_heads) return query_heads.error();
  const auto kv_heads = read_size(config, "num_key_value_heads", *query_heads);
  if (!kv_heads) return kv_heads.error();
  const auto head_dim = read_size(config, "head_dim", *dim / *query_heads);
  if (!head_dim) return head_dim.error();
  const auto context = read_size(config, "max_position_embeddings", {});
  if (!context) return context.error();
  const auto vocabulary = read_size(config, "vocab_size", {});
  if (!vocabulary) return vocabulary.error();
  if (*vocabulary > kVocabularyCountMax) {
    return bad_key("vocab_size", "above " + std::to_string(kVocabularyCountMax));
  }
  const auto epsilon = json_number(config, "rms_norm_eps");
  if (!epsilon) return epsilon.error();

  const HeadShape heads{*query_heads, *kv_heads, *head_dim};
  if (auto checked = check_heads(heads, "config.json"); !checked) return checked.error();
  out.vocabulary_count = *vocabulary;
  out.layer_count = *layer_count;
  out.context_length = *context;
  out.layer = {.dim = *dim,
               .heads = heads,
               .ffn_dim = *ffn_dim,
               .rms_epsilon = static_cast<float>(epsilon->value_or(1e-6))};
  return {};
}

struct Llama3Scaling {
  double factor;
  double low;
  double high;
  double original_context;
};

// Keeps short waves, stretches long ones by the factor and blends those between.
// Source    the Llama 3.1 model card; as divisors, as in GGUF
std::vector<float> llama3_divisors(const Llama3Scaling& s, double theta, std::uint32_t head_dim) {
  std::vector<float> divisors;
  for (std::uint32_t i = 0; i < head_dim / 2; ++i) {
    const double frequency = std::pow(theta, -2.0 * i / head_dim);
    const double turns = s.original_context * frequency / (2.0 * std::numbers::pi);
    const double blend = std::clamp((turns - s.low) / (s.high - s.low), 0.0, 1.0);
    divisors.push_back(static_cast<float>(1.0 / ((1.0 - blend) / s.factor + blend)));
  }
  return divisors;
}

Result<double> positive(const json& object, const char* key) {
  const auto value = json_number(object, key);
  if (!value) return value.error();
  if (!*value || !(**value > 0.0 && std::isfinite(static_cast<float>(**value)))) {
    return bad_key(key, "missing in the rotary scaling, or not a finite positive 32-bit number");
  }
  return **value;
}

Result<void> read_llama3(const json& scaling, double theta, HfConfig& out) {
  Llama3Scaling values{};
  const std::pair<const char*, double*> fields[] = {
      {"factor", &values.factor},
      {"low_freq_factor", &values.low},
      {"high_freq_factor", &values.high},
      {"original_max_position_embeddings", &values.original_context},
  };
  for (const auto& [key, field] : fields) {
    const auto value = positive(scaling, key);
    if (!value) return value.error();
    *field = *value;
  }
  if (values.high <= values.low) return bad_file("high_freq_factor is not above low_freq_factor");
  out.decoder.rope.frequency_divisors =
      llama3_divisors(values, theta, out.decoder.layer.heads.head_dim);
  return {};
}

// A member that is an object; an empty object if missing or of another type.
json object_at(const json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_object() ? *found : json::object();
}

// Older files have rope_theta and rope_scaling, newer ones rope_parameters, and some a mixture.
Result<void> read_rope(const json& config, HfConfig& out) {
  const json parameters = object_at(config, "rope_parameters");
  const json old = object_at(config, "rope_scaling");
  std::optional<double> theta;
  for (const json* object : {&parameters, &config}) {
    const auto value = json_number(*object, "rope_theta");
    if (!value) return value.error();
    if (!theta) theta = *value;
  }
  out.decoder.rope.theta = static_cast<float>(theta.value_or(10000.0));
  if (!(out.decoder.rope.theta > 1.0f && std::isfinite(out.decoder.rope.theta))) {
    return bad_file("\"rope_theta\" is not a finite 32-bit number above 1");
  }
  for (const json* object : {&config, &parameters, &old}) {
    const auto rotated = json_number(*object, "partial_rotary_factor");
    if (!rotated) return rotated.error();
    if (rotated->value_or(1.0) != 1.0) {
      return Error{Errc::unsupported, "partial rotary embeddings are not supported"};
    }
  }

  const json& scaling = old.empty() ? parameters : old;
  const auto type = json_string(scaling, scaling.contains("rope_type") ? "rope_type" : "type");
  if (!type) return type.error();
  const std::string kind = type->value_or("default");
  if (kind == "default") return {};
  if (kind == "llama3") return read_llama3(scaling, out.decoder.rope.theta, out);
  if (kind != "linear") {
    return Error{Errc::unsupported,
                 "rotary scaling '" + kind + "' is not supported; linear and llama3 are"};
  }
  const auto factor = positive(scaling, "factor");
  if (!factor) return factor.error();
  out.linear_factor = static_cast<float>(*factor);
  out.decoder.rope.frequency_divisors.assign(out.decoder.layer.heads.head_dim / 2,
                                             *out.linear_factor);
  return {};
}

// An integer, or a list of at most kEndIdsMax.
Result<std::vector<std::uint32_t>> read_ids(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::vector<std::uint32_t>{};
  if (found->is_array() && found->size() > kEndIdsMax) {
    return bad_file(std::string(key) + " lists more than " + std::to_string(kEndIdsMax) +
                    " tokens");
  }
  const json list = found->is_array() ? *found : json::array({*found});
  std::vector<std::uint32_t> ids;
  for (const json& id : list) {
    const auto value = json_u32(json{{key, id}}, key);
    if (!value) return value.error();
    if (*value) ids.push_back(**value);
  }
  return ids;
}

Result<HfConfig> parse_config(const json& config) {
  HfConfig out;
  auto architecture = read_architecture(config);
  if (!architecture) return architecture.error();
  out.decoder.architecture = std::move(*architecture);
  if (auto read = read_sizes(config, out.decoder); !read) return read.error();
  if (auto read = read_rope(config, out); !read) return read.error();
  const auto tied = json_bool(config, "tie_word_embeddings");
  if (!tied) return tied.error();
  out.tied_embeddings = tied->value_or(false);
  const auto sliding = json_bool(config, "use_sliding_window");
  if (!sliding) return sliding.error();
  if (sliding->value_or(false)) {
    return Error{Errc::unsupported, "sliding-window attention is not supported"};
  }
  const auto activation = json_string(config, "hidden_act");
  if (!activation) return activation.error();
  if (*activation && **activation != "silu") {
    return Error{Errc::unsupported,
                 "\"hidden_act\" is '" + **activation + "'; only silu is supported"};
  }
  const auto bos = read_ids(config, "bos_token_id");
  if (!bos) return bos.error();
  if (!bos->empty()) out.bos_id = bos->front();
  auto eos = read_ids(config, "eos_token_id");
  if (!eos) return eos.error();
  out.eos_ids = std::move(*eos);
  return out;
}

}  // namespace

Result<HfConfig> read_hf_config(const std::filesystem::path& directory) {
  const auto path = directory / "config.json";
  const auto json = read_json_object(path);
  if (!json) return json.error();
  auto config = parse_config(*json);
  if (!config) return Error{config.error().code, path.string() + ": " + config.error().message};
  // generation_config.json, if present, lists more ids that end an answer.
  const auto generation_path = directory / "generation_config.json";
  if (std::filesystem::exists(generation_path)) {
    const auto generation = read_json_object(generation_path);
    if (!generation) return generation.error();
    const auto more = read_ids(*generation, "eos_token_id");
    if (!more) return in_file(generation_path, more.error());
    for (const std::uint32_t id : *more) {
      if (std::find(config->eos_ids.begin(), config->eos_ids.end(), id) == config->eos_ids.end()) {
        config->eos_ids.push_back(id);
      }
    }
  }
  return config;
}

}  // namespace edgedraft
