#include "shared/model/convert/hf_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "shared/model/convert/hf_keys.h"
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

void read_sizes(HfKeys& keys) {
  keys.count("hidden_size", "embedding_length");
  keys.count("num_hidden_layers", "block_count");
  keys.count("intermediate_size", "feed_forward_length");
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
  keys.set_count(
      "rope.dimension_count",
      static_cast<std::uint32_t>(head_dim * keys.rope_number_or("partial_rotary_factor", 1.0)));
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

void read_scaling(HfKeys& keys, HfConfig& out) {
  const double theta = keys.rope_number_or("rope_theta", 10000.0);
  keys.set_number("rope.freq_base", theta);
  const std::string kind = keys.rope_type();
  if (kind == "default") return;
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
    out.stored_divisors = llama3_divisors(values, static_cast<float>(theta), keys.rotated());
    return;
  }
  if (kind != "linear" && kind != "yarn") {
    keys.fail({Errc::unsupported,
               "rotary scaling '" + kind + "' is not supported; linear, llama3 and yarn are"});
    return;
  }
  keys.set_text("rope.scaling.type", kind);
  keys.set_number("rope.scaling.factor", factor);
  if (kind == "yarn") {
    const double original = keys.positive_in_rope("original_max_position_embeddings");
    keys.set_count("rope.scaling.original_context_length",
                   static_cast<std::uint32_t>(std::min(original, 2147483647.0)));
    for (const char* other : {"attention_factor", "mscale", "beta_fast", "beta_slow"}) {
      keys.refuse_in_rope(other);
    }
  }
}

// A window that is switched off is in the files of Qwen2 and 3.
void read_window(HfKeys& keys) {
  const std::uint32_t window = keys.size("sliding_window");
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

Result<HfConfig> parse_config(const json& config) {
  HfConfig out;
  const auto architecture = read_architecture(config);
  if (!architecture) return architecture.error();
  const auto family = find_hf_family(*architecture);
  if (!family) return family.error();
  out.family = *family;
  HfKeys keys(config, (*family)->architecture, out.metadata);
  read_sizes(keys);
  read_scaling(keys, out);
  read_window(keys);
  if ((*family)->hf != nullptr) (*family)->hf(keys);
  out.tied_embeddings = keys.flag_or("tie_word_embeddings", (*family)->hf_tied);
  if (keys.text_or("hidden_act", "silu") != "silu" && (*family)->hf == nullptr) {
    keys.fail({Errc::unsupported, "\"hidden_act\" is '" + keys.text_or("hidden_act", "") +
                                      "'; only silu is supported"});
  }
  if (keys.error()) return *keys.error();
  auto decoder = read_plan(out.metadata.keys(), **family);
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
