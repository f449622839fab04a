#include "shared/drafting/moa/moa_bundle.h"

#include <string>
#include <utility>

#include "shared/drafting/moa/moa_keys.h"
#include "shared/drafting/moa/moa_tensors.h"
#include "shared/model/convert/hf_model.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/fingerprint.h"
#include "shared/model/json_file.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

using nlohmann::json;

struct Sizes {
  std::uint32_t tli = 0;
  LayerShape sa;
  LayerShape ca;
  LayerShape lsa;
};

std::string key(std::string_view prefix, std::string_view name) {
  return std::string(prefix) + std::string(name);
}

Result<std::uint32_t> rows_of(const SafetensorsModel& checkpoint, const std::string& name) {
  const SafetensorsTensor* tensor = checkpoint.find(name);
  if (tensor == nullptr) {
    return Error{Errc::bad_file, "the drafter's checkpoint lacks the tensor " + name};
  }
  if (tensor->shape.size() != 2 || tensor->shape[0] == 0 || tensor->shape[0] > (1u << 20)) {
    return Error{Errc::bad_file, "tensor " + name + " of the drafter has an impossible shape"};
  }
  return static_cast<std::uint32_t>(tensor->shape[0]);
}

// A layer's sizes from its tensors; the reader then checks every shape against them.
Result<LayerShape> infer_shape(const SafetensorsModel& checkpoint, const std::string& prefix,
                               std::uint32_t dim, std::uint32_t head_dim, float epsilon) {
  const auto query_cols = rows_of(checkpoint, prefix + "self_attn.q_proj.weight");
  if (!query_cols) return query_cols.error();
  const auto kv_cols = rows_of(checkpoint, prefix + "self_attn.k_proj.weight");
  if (!kv_cols) return kv_cols.error();
  const auto ffn_dim = rows_of(checkpoint, prefix + "mlp.up_proj.weight");
  if (!ffn_dim) return ffn_dim.error();
  if (head_dim == 0 || *query_cols % head_dim != 0 || *kv_cols % head_dim != 0) {
    return Error{Errc::mismatch, "the drafter's " + prefix + "self_attn has " +
                                     std::to_string(*query_cols) + " query and " +
                                     std::to_string(*kv_cols) + " key columns, no heads of " +
                                     std::to_string(head_dim)};
  }
  const HeadShape heads{*query_cols / head_dim, *kv_cols / head_dim, head_dim};
  if (auto checked = check_heads(heads, "the drafter's " + prefix + "self_attn"); !checked) {
    return checked.error();
  }
  return LayerShape{.dim = dim, .heads = heads, .ffn_dim = *ffn_dim, .rms_epsilon = epsilon};
}

// Values of config.json that repeat what the target says must agree with it.
Result<void> check_target(const json& config, const DecoderConfig& target) {
  const std::pair<const char*, std::uint32_t> facts[] = {
      {"hidden_size", target.layer.dim},
      {"vocab_size", target.vocabulary_count},
      {"target_layers", target.layer_count},
  };
  for (const auto& [name, expected] : facts) {
    const auto value = json_u32(config, name);
    if (!value) return value.error();
    if (*value && **value != expected) {
      return Error{Errc::mismatch, "the drafter is made for a target with \"" + std::string(name) +
                                       "\" " + std::to_string(**value) + "; this one has " +
                                       std::to_string(expected)};
    }
  }
  return {};
}

Result<Sizes> read_sizes(const json& config, const SafetensorsModel& checkpoint,
                         const DecoderConfig& target) {
  if (auto checked = check_target(config, target); !checked) return checked.error();
  Sizes sizes;
  const auto tli = json_u32(config, "tli");
  if (!tli) return tli.error();
  sizes.tli = tli->value_or(0);
  if (sizes.tli > target.layer_count) {
    return Error{Errc::mismatch, "the drafter's TLI is more than the target has layers"};
  }
  const std::uint32_t lsa_dim = 2 * target.layer.heads.kv_cols();
  const auto lsa_heads = json_u32(config, "lsa_num_attention_heads");
  if (!lsa_heads) return lsa_heads.error();
  const std::uint32_t lsa_query_heads = lsa_heads->value_or(target.layer.heads.query_heads);
  if (lsa_query_heads == 0) {
    return Error{Errc::bad_file, "\"lsa_num_attention_heads\" is zero"};
  }
  const auto epsilon = json_number(config, "rms_norm_eps");
  if (!epsilon) return epsilon.error();
  const auto rms_epsilon = static_cast<float>(epsilon->value_or(target.layer.rms_epsilon));

  const struct {
    const char* prefix;
    std::uint32_t dim;
    std::uint32_t head_dim;
    LayerShape& out;
  } layers[] = {
      {"self_attention.", target.layer.dim, target.layer.heads.head_dim, sizes.sa},
      {"cross_attention.", target.layer.dim, target.layer.heads.head_dim, sizes.ca},
      {"layer_self_attention.", lsa_dim, lsa_dim / lsa_query_heads, sizes.lsa},
  };
  for (const auto& layer : layers) {
    auto shape = infer_shape(checkpoint, layer.prefix, layer.dim, layer.head_dim, rms_epsilon);
    if (!shape) return shape.error();
    layer.out = *shape;
  }
  return sizes;
}

struct RopeEntry {
  float theta;
  RopeStyle style;
};

void add_shape(GgufMetadata& metadata, std::string_view prefix, const LayerShape& shape,
               RopeEntry rope) {
  metadata.set_u32(key(prefix, moa_keys::kDim), shape.dim);
  metadata.set_u32(key(prefix, moa_keys::kFfnDim), shape.ffn_dim);
  metadata.set_u32(key(prefix, moa_keys::kQueryHeads), shape.heads.query_heads);
  metadata.set_u32(key(prefix, moa_keys::kKvHeads), shape.heads.kv_heads);
  metadata.set_u32(key(prefix, moa_keys::kHeadDim), shape.heads.head_dim);
  metadata.set_f32(key(prefix, moa_keys::kEpsilon), shape.rms_epsilon);
  metadata.set_f32(key(prefix, moa_keys::kTheta), rope.theta);
  metadata.set_string(key(prefix, moa_keys::kStyle),
                      rope.style == RopeStyle::pairs ? "pairs" : "halves");
}

Result<void> add_metadata(const GgufFile& file, const DecoderConfig& target, const Sizes& sizes,
                          float theta, GgufMetadata& metadata) {
  const auto fingerprint = model_fingerprint(file);
  if (!fingerprint) return fingerprint.error();
  metadata.set_string("general.architecture", kMoaArchitecture);
  metadata.set_string(std::string(kTargetFingerprintKey), to_hex(*fingerprint));
  metadata.set_u32(std::string(moa_keys::kTli), sizes.tli);
  metadata.set_u32(std::string(moa_keys::kContextLength), target.context_length);
  metadata.set_u32(std::string(moa_keys::kTargetLayerCount), target.layer_count);
  metadata.set_f32(std::string(moa_keys::kOutputNormEpsilon), target.layer.rms_epsilon);
  add_shape(metadata, moa_keys::kSa, sizes.sa, {theta, RopeStyle::halves});
  add_shape(metadata, moa_keys::kCa, sizes.ca, {theta, RopeStyle::halves});
  add_shape(metadata, moa_keys::kLsa, sizes.lsa, {theta, RopeStyle::halves});
  add_shape(metadata, moa_keys::kTarget, target.layer, {target.rope.theta, target.rope.style});
  for (const auto& [name, value] : file.metadata()) {
    if (name.starts_with("tokenizer.")) metadata.set(std::string(name), value);
  }
  return {};
}

// SA and the target's layers keep the target's scaling; CA and LSA have none.
void add_divisors(const DecoderConfig& target, ModelPlan& plan) {
  const std::vector<float>& divisors = target.rope.frequency_divisors;
  if (divisors.empty()) return;
  const ByteView bytes = std::as_bytes(std::span(divisors));
  plan.made.emplace_back(bytes.begin(), bytes.end());
  for (const char* prefix : {"sa.", "target."}) {
    plan.tensors.push_back({.info = {.name = key(prefix, moa_keys::kDivisors),
                                     .type = DType::f32,
                                     .dims = {divisors.size()}},
                            .source_type = DType::f32,
                            .source = plan.made.back()});
  }
}

void add_target_tensors(const GgufFile& file, const DecoderConfig& target, std::uint32_t tli,
                        ModelPlan& plan) {
  for (const GgufTensor& tensor : file.tensors()) {
    const std::string name(tensor.name);
    if (name == "token_embd.weight" || name == "output.weight" || name == "output_norm.weight") {
      plan.tensors.push_back(copy_of(tensor, name));
    }
    for (std::uint32_t i = 0; i < tli; ++i) {
      const std::string prefix = "blk." + std::to_string(target.layer_count - tli + i) + ".";
      if (!name.starts_with(prefix)) continue;
      plan.tensors.push_back(
          copy_of(tensor, "tli." + std::to_string(i) + "." + name.substr(prefix.size())));
    }
  }
}

}  // namespace

Result<ModelPlan> plan_moa_bundle(MoaBundleInput input) {
  const auto target = read_decoder_config(input.target);
  if (!target) return target.error();
  json config = json::object();
  if (std::filesystem::exists(input.directory / "config.json")) {
    auto read = read_json_object(input.directory / "config.json");
    if (!read) return read.error();
    config = std::move(*read);
  }
  const auto sizes = read_sizes(config, input.checkpoint, *target);
  if (!sizes) return sizes.error();
  const auto theta = json_number(config, "rope_theta");
  if (!theta) return theta.error();

  ModelPlan plan;
  const float drafter_theta = static_cast<float>(theta->value_or(target->rope.theta));
  if (auto added = add_metadata(input.target, *target, *sizes, drafter_theta, plan.metadata);
      !added) {
    return added.error();
  }
  set_file_type(plan.metadata, input.type);
  add_divisors(*target, plan);
  add_target_tensors(input.target, *target, sizes->tli, plan);
  CheckpointReader reader(input.checkpoint, input.type, plan);
  reader.add_layer("self_attention.", "sa.", sizes->sa, RopeStyle::halves);
  reader.add_layer("cross_attention.", "ca.", sizes->ca, RopeStyle::halves);
  reader.add_layer("layer_self_attention.", "lsa.", sizes->lsa, RopeStyle::halves);
  reader.add("Ekv2E.weight", "ekv2e.weight", {target->layer.dim, sizes->lsa.dim}, 0);
  reader.add("Ekv2E.bias", "ekv2e.bias", {target->layer.dim}, 0);
  reader.refuse_others();
  if (reader.error()) return *reader.error();
  plan.checkpoints.push_back(std::move(input.checkpoint));
  return plan;
}

}  // namespace edgedraft
