#include "shared/model/convert/hf_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <tuple>
#include <utility>

#include "shared/model/families/hf_keys.h"
#include "shared/model/json_file.h"
#include "shared/model/tensor_shapes.h"
#include "shared/model/tokenizer/vocabulary.h"

namespace edgedraft {
namespace {

using nlohmann::json;

Result<std::string> read_architecture(const json& config) {
  const auto found = config.find("architectures");
  if (found != config.end() && found->is_array() && !found->empty() && (*found)[0].is_string()) {
    return (*found)[0].get<std::string>();
  }
  return bad_file("\"architectures\" names none");
}

void read_sizes(HfKeys& keys, bool has_experts) {
  keys.count("hidden_size", "embedding_length");
  keys.count("num_hidden_layers", "block_count");
  if (!has_experts || keys.has("intermediate_size")) {
    keys.count("intermediate_size", "feed_forward_length");
  }
  const std::uint32_t query_heads = keys.count("num_attention_heads", "attention.head_count");
  keys.count_or("num_key_value_heads", "attention.head_count_kv", query_heads);
  const std::uint32_t head_dim = keys.count_or(
      "head_dim", "attention.key_length", keys.size("hidden_size") / std::max(query_heads, 1u));
  keys.set_count("attention.value_length", head_dim);
  keys.count("max_position_embeddings", "context_length");
  if (keys.count("vocab_size", "vocab_size") > kVocabularyCountMax) {
    keys.fail(bad_file("\"vocab_size\" is above " + std::to_string(kVocabularyCountMax)));
  }
  keys.set_number("attention.layer_norm_rms_epsilon", keys.number_or("rms_norm_eps", 1e-6));
  if (head_dim > kHeadDimMax) {
    keys.refuse("head_dim", "above " + std::to_string(kHeadDimMax) + ", which is not supported");
    return;
  }
  const double rotated = keys.rope_number_or("partial_rotary_factor", 1.0);
  if (!(rotated > 0.0 && rotated <= 1.0)) {
    keys.fail(bad_file("\"partial_rotary_factor\" is not above 0 and at most 1"));
    return;
  }
  keys.set_count("rope.dimension_count", static_cast<std::uint32_t>(head_dim * rotated));
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

// Bounds and magnitude of YaRN, for which GGUF has keys that llama.cpp reads in some families only.
void read_yarn(HfKeys& keys, const Family& family) {
  const auto has_key = [&](std::string_view key) {
    return std::ranges::find(family.keys, key) != family.keys.end();
  };
  for (const auto& [from, to, usual] :
       {std::tuple("beta_fast", "rope.scaling.yarn_beta_fast", 32.0),
        std::tuple("beta_slow", "rope.scaling.yarn_beta_slow", 1.0)}) {
    if (!has_key(to)) {
      keys.require_in_rope(from, usual);
    } else if (keys.has_in_rope(from)) {
      keys.set_number(to, keys.positive_in_rope(from));
    }
  }
  keys.refuse_in_rope("attention_factor");
  if (has_key("rope.scaling.yarn_log_multiplier")) {
    keys.require_in_rope("mscale", 1.0);
  } else {
    keys.refuse_in_rope("mscale");
  }
}

// Rotary embedding, but for the factors that a family stores.
void read_rope(HfKeys& keys, const Family& family) {
  const double theta = keys.rope_number_or("rope_theta", 10000.0);
  if (!(theta > 1.0 && std::isfinite(static_cast<float>(theta)))) {
    keys.fail(bad_file("\"rope_theta\" is not a finite 32-bit number above 1"));
    return;
  }
  keys.set_number("rope.freq_base", theta);
  if (family.rope_style == RopeStyle::pairs &&
      keys.rope_number_or("partial_rotary_factor", 1.0) != 1.0) {
    keys.fail({Errc::unsupported,
               "\"partial_rotary_factor\" is not 1: partial rotary embedding "
               "is not supported in a " +
                   std::string(family.architecture) + " model"});
    return;
  }
  const std::string kind = keys.rope_type();
  const bool is_own = std::ranges::find(family.hf_rope_types, kind) != family.hf_rope_types.end();
  if (kind == "default" || is_own) return;
  if (kind != "linear" && kind != "llama3" && kind != "yarn") {
    keys.fail({Errc::unsupported, "rotary scaling '" + kind + "' is not supported in a " +
                                      std::string(family.architecture) +
                                      " model; linear, llama3 and yarn are"});
    return;
  }
  const double factor = keys.positive_in_rope("factor");
  if (kind == "llama3") {
    const Llama3Scaling values{
        .factor = factor,
        .low = keys.positive_in_rope("low_freq_factor"),
        .high = keys.positive_in_rope("high_freq_factor"),
        .original_context = keys.positive_in_rope("original_max_position_embeddings")};
    if (keys.error()) return;
    if (values.high <= values.low) {
      keys.fail(bad_file("high_freq_factor is not above low_freq_factor"));
      return;
    }
    keys.set_vector("rope_freqs.weight",
                    llama3_divisors(values, static_cast<float>(theta), keys.rotated()));
    return;
  }
  keys.set_text("rope.scaling.type", kind);
  keys.set_number("rope.scaling.factor", factor);
  if (kind == "yarn") {
    const double original = keys.positive_in_rope("original_max_position_embeddings");
    keys.set_count("rope.scaling.original_context_length",
                   static_cast<std::uint32_t>(std::min(original, 2147483647.0)));
    read_yarn(keys, family);
  }
}

// A window that is switched off is in the files of Qwen2 and 3.
void read_window(HfKeys& keys) {
  const std::uint32_t window = keys.size("sliding_window");
  if (window == 0 && keys.flag_or("use_sliding_window", false)) {
    keys.refuse("use_sliding_window",
                "true without a size: sliding-window attention requires "
                "\"sliding_window\"");
  }
  if (window > 0 && keys.flag_or("use_sliding_window", true)) {
    keys.set_count("attention.sliding_window", window);
  }
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

// The members of `more` that are not null replace those of `config`.
void merge(const json& more, json& config) {
  for (const auto& [key, value] : more.items()) {
    if (!value.is_null()) config[key] = value;
  }
}

// The configuration of the language model, with the family's defaults. A model that sees images
// has it in "text_config".
json whole_config(const json& file, const Family& family) {
  json config = json::parse(family.hf_defaults);
  merge(file, config);
  const auto text = file.find("text_config");
  if (text != file.end() && text->is_object()) merge(*text, config);
  return config;
}

void check_activation(HfKeys& keys, const Family& family) {
  for (const char* key : {"hidden_act", "hidden_activation"}) {
    const std::string name = keys.text_or(key, family.hf_activation);
    if (name == family.hf_activation) continue;
    keys.refuse(key, "'" + name + "'; only " + std::string(family.hf_activation) +
                         " is supported in a " + std::string(family.architecture) + " model");
  }
}

}  // namespace

Result<HfConfig> parse_hf_config(const json& file, const SafetensorsModel* checkpoint) {
  HfConfig out;
  const auto architecture = read_architecture(file);
  if (!architecture) return architecture.error();
  const auto found = find_hf_family(*architecture);
  if (!found) return found.error();
  const Family& family = **found;
  out.family = &family;
  out.has_images = file.contains("vision_config");
  const json config = whole_config(file, family);
  HfKeys keys(config, checkpoint, family.architecture, out);
  read_sizes(keys, std::ranges::find(family.keys, "expert_count") != family.keys.end());
  read_rope(keys, family);
  read_window(keys);
  check_activation(keys, family);
  if (family.hf != nullptr && !keys.error()) family.hf(keys);
  out.tied_embeddings = keys.flag_or("tie_word_embeddings", false);
  if (keys.error()) return *keys.error();
  auto decoder = read_plan(out.metadata.keys(), family);
  if (!decoder) return decoder.error();
  out.decoder = *std::move(decoder);
  out.decoder.vocabulary_count = keys.size("vocab_size");
  const auto bos = read_ids(config, "bos_token_id");
  if (!bos) return bos.error();
  if (!bos->empty()) out.bos_id = bos->front();
  auto eos = read_ids(config, "eos_token_id");
  if (!eos) return eos.error();
  out.eos_ids = std::move(*eos);
  return out;
}

Result<HfConfig> read_hf_config(const std::filesystem::path& directory,
                                const SafetensorsModel* checkpoint) {
  const auto path = directory / "config.json";
  const auto json = read_json_object(path);
  if (!json) return json.error();
  auto config = parse_hf_config(*json, checkpoint);
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
