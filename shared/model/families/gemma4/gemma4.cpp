#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "shared/model/families/checkpoint_reader.h"
#include "shared/model/families/family.h"
#include "shared/model/families/hf_keys.h"
#include "shared/model/gguf.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

constexpr std::string_view kGemma4Hf[] = {"Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"};
constexpr std::string_view kGemma4Rope[] = {"proportional"};
constexpr const char* kFactors = "rope_freqs.weight";
constexpr std::string_view kGemma4Keys[] = {
    "attention.sliding_window", "attention.sliding_window_pattern", "attention.head_count_kv",
    "feed_forward_length",      "final_logit_softcapping",          "expert_count"};

// Heads of windowed layers, but for their number of key heads.
HeadShape window_heads(PlanKeys& keys, const HeadShape& heads) {
  HeadShape windowed = heads;
  windowed.head_dim = keys.count("attention.key_length_swa", kHeadDimMax);
  if (keys.count_or("attention.value_length_swa", kWidthMax, windowed.head_dim) !=
      windowed.head_dim) {
    keys.refuse("attention.value_length_swa", " differs from key_length_swa");
  }
  return windowed;
}

RopeConfig window_rope(PlanKeys& keys, std::uint32_t head_dim, RopeStyle style) {
  const std::uint32_t rotated = keys.count_or("rope.dimension_count_swa", kWidthMax, head_dim);
  if (rotated > head_dim || rotated % 2 != 0) {
    keys.refuse("rope.dimension_count_swa", " is " + std::to_string(rotated) +
                                                "; it must be even and at most the head size " +
                                                std::to_string(head_dim));
  }
  return {.theta = keys.positive_or("rope.freq_base_swa", 10000.0f),
          .style = style,
          .rotated = rotated,
          .frequency_divisors = {},
          .long_divisors = {}};
}

// The last layers read the keys and values of the last one before them that has the same window.
void share_keys(PlanKeys& keys, DecoderConfig& config) {
  constexpr std::string_view kShared = "attention.shared_kv_layers";
  const std::uint32_t shared = keys.size_or(kShared, 0);
  if (shared >= config.layer_count) {
    keys.fail(bad_file(keys.full(kShared) + " leaves no layer with keys of its own"));
    return;
  }
  const std::uint32_t own = config.layer_count - shared;
  for (std::uint32_t i = own; i < config.layer_count; ++i) {
    LayerPlan& plan = config.layers[i];
    std::uint32_t from = own;
    while (from > 0 && config.layers[from - 1].window != plan.window) --from;
    if (from == 0 || config.layers[from - 1].shape.heads != plan.shape.heads) {
      keys.fail(
          bad_file(keys.full(kShared) + ": no layer has keys for layer " + std::to_string(i)));
      return;
    }
    plan.kv_back = i - (from - 1);
  }
}

void plan_gemma4(PlanKeys& keys, DecoderConfig& config) {
  const std::uint32_t layers = config.layer_count;
  const std::uint32_t window = keys.count("attention.sliding_window", 0x7FFFFFFFu);
  const auto is_windowed = keys.flags("attention.sliding_window_pattern", layers);
  const auto kv_heads = keys.counts("attention.head_count_kv", layers, kWidthMax);
  const auto ffn_dims = keys.counts("feed_forward_length", layers, kWidthMax);
  const HeadShape windowed = window_heads(keys, config.layer.heads);
  if (is_windowed.empty()) {
    keys.fail(bad_file("the file lacks " + keys.full("attention.sliding_window_pattern")));
    return;
  }
  config.embedding_scale = std::sqrt(static_cast<float>(config.layer.dim));
  config.logit_cap = keys.not_negative_or("final_logit_softcapping", 0.0f);
  config.window_rope = window_rope(keys, windowed.head_dim, config.rope.style);
  const std::uint32_t embedding_dim = keys.size_or("embedding_length_per_layer_input", 0);
  if (embedding_dim > kWidthMax / layers) {
    keys.fail(bad_file(keys.full("embedding_length_per_layer_input") + " is too large"));
  }
  config.layers.assign(layers, {.shape = config.layer,
                                .attention_scale = 1.0f,
                                .activation = Activation::gelu,
                                .embedding_dim = embedding_dim});
  for (std::uint32_t i = 0; i < layers; ++i) {
    LayerPlan& plan = config.layers[i];
    if (is_windowed[i]) {
      plan.shape.heads = windowed;
      plan.window = window;
      plan.rope = LayerPlan::Rope::window;
    }
    plan.shape.heads.kv_heads = kv_heads[i];
    plan.shape.ffn_dim = ffn_dims[i];
    if (ffn_dims[i] == 0) keys.fail(bad_file(keys.full("feed_forward_length") + " is 0"));
  }
  if (keys.size_or("expert_count", 0) > 0) {
    ExpertShape experts = read_experts(keys);
    experts.beside_dense = true;
    for (LayerPlan& plan : config.layers) plan.experts = experts;
  }
  share_keys(keys, config);
}

// Only layers without a window divide frequencies, most of them to zero.
Result<void> read_gemma4_factors(const GgufFile& file, DecoderConfig& config) {
  if (file.find_tensor(kFactors) == nullptr) return missing_tensor(kFactors);
  return read_rope_freqs(file, config.rope);
}

void gemma4_attention(const LayerPlan& plan, LayerList& list) {
  using L = LayerTensors;
  const HeadShape& heads = plan.shape.heads;
  const std::uint32_t dim = plan.shape.dim;
  list.vector("attn_norm.weight", "input_layernorm.weight", &L::attn_norm, dim);
  list.matrix("attn_q.weight", "self_attn.q_proj.weight", &L::attn_q, heads.query_cols(), dim);
  list.vector("attn_q_norm.weight", "self_attn.q_norm.weight", &L::attn_q_norm, heads.head_dim);
  list.matrix("attn_output.weight", "self_attn.o_proj.weight", &L::attn_output, dim,
              heads.query_cols());
  list.vector("post_attention_norm.weight", "post_attention_layernorm.weight", &L::post_attn_norm,
              dim);
  if (plan.kv_back != 0) {
    list.unused("attn_k.weight", "self_attn.k_proj.weight");
    list.unused("attn_v.weight", "self_attn.v_proj.weight");
    list.unused("attn_k_norm.weight", "self_attn.k_norm.weight");
    return;
  }
  list.matrix("attn_k.weight", "self_attn.k_proj.weight", &L::attn_k, heads.kv_cols(), dim);
  list.matrix("attn_v.weight", "self_attn.v_proj.weight", &L::attn_v, heads.kv_cols(), dim).kind =
      LayerTensor::Kind::optional_matrix;
  list.vector("attn_k_norm.weight", "self_attn.k_norm.weight", &L::attn_k_norm, heads.head_dim);
  list.ones(&L::attn_v_norm, heads.head_dim);
}

void gemma4_experts(const LayerPlan& plan, LayerList& list) {
  using L = LayerTensors;
  const std::uint32_t dim = plan.shape.dim;
  list.experts(plan);
  list.of(&L::router).hf.name = "router.proj.weight";
  for (const LayerList::Part part : {&L::experts_gate, &L::experts_up, &L::experts_down}) {
    list.of(part).hf = std::exchange(list.of(part).hf_else, {});
  }
  for (const LayerList::Part part : {&L::experts_gate, &L::experts_up}) {
    list.of(part).hf.name = "experts.gate_up_proj";
  }
  list.of(&L::experts_down).hf.name = "experts.down_proj";
  list.vector("ffn_gate_inp.scale", "router.scale", &L::router_norm, dim);
  list.vector("pre_ffw_norm_2.weight", "pre_feedforward_layernorm_2.weight", &L::experts_norm, dim);
  list.vector("post_ffw_norm_1.weight", "post_feedforward_layernorm_1.weight", &L::post_dense_norm,
              dim);
  list.vector("post_ffw_norm_2.weight", "post_feedforward_layernorm_2.weight",
              &L::post_experts_norm, dim);
  list.optional_vector("ffn_down_exps.scale", "router.per_expert_scale", &L::experts_scale,
                       plan.experts.count)
      .kind = LayerTensor::Kind::optional_numbers;
}

void gemma4_layer(const LayerPlan& plan, LayerList& list) {
  using L = LayerTensors;
  const std::uint32_t dim = plan.shape.dim;
  gemma4_attention(plan, list);
  list.vector("ffn_norm.weight", "pre_feedforward_layernorm.weight", &L::ffn_norm, dim);
  list.dense(plan);
  if (plan.experts.beside_dense) gemma4_experts(plan, list);
  list.vector("post_ffw_norm.weight", "post_feedforward_layernorm.weight", &L::post_ffn_norm, dim);
  list.optional_vector("layer_output_scale.weight", "layer_scalar", &L::output_scale, 1);
  if (plan.embedding_dim == 0) return;
  list.matrix("inp_gate.weight", "per_layer_input_gate.weight", &L::embd_gate, plan.embedding_dim,
              dim);
  list.matrix("proj.weight", "per_layer_projection.weight", &L::embd_output, dim,
              plan.embedding_dim);
  list.vector("post_norm.weight", "post_per_layer_input_norm.weight", &L::post_embd_norm, dim);
}

// Layers with full attention have heads, key heads and rotation of their own.
void gemma4_heads_hf(HfKeys& keys, const std::vector<bool>& is_windowed) {
  const std::uint32_t head_dim = keys.size("head_dim");
  const std::uint32_t full = keys.count_or("global_head_dim", "attention.key_length", head_dim);
  keys.set_count("attention.value_length", full);
  keys.set_count("attention.key_length_swa", head_dim);
  keys.set_count("attention.value_length_swa", head_dim);
  keys.set_count("rope.dimension_count_swa", head_dim);
  keys.set_number("rope.freq_base_swa", keys.window_theta_or(10000.0));
  if (keys.has("num_global_key_value_heads")) {
    std::vector<std::int32_t> counts;
    for (const bool windowed : is_windowed) {
      const char* const key = windowed ? "num_key_value_heads" : "num_global_key_value_heads";
      counts.push_back(static_cast<std::int32_t>(std::min(keys.size(key), kWidthMax)));
    }
    keys.set_counts("attention.head_count_kv", counts);
  }
  const double part = keys.rope_number_or("partial_rotary_factor", 1.0);
  if (full > kHeadDimMax || !(part > 0.0 && part <= 1.0)) {
    keys.refuse("global_head_dim", "above " + std::to_string(kHeadDimMax));
    return;
  }
  keys.set_count("rope.dimension_count", full);
  // So large a divisor stops the rotation of a frequency.
  constexpr float kStopped = 1e30f;
  std::vector<float> divisors(full / 2, 1.0f);
  for (auto i = static_cast<std::size_t>(full * part / 2.0); i < divisors.size(); ++i) {
    divisors[i] = kStopped;
  }
  keys.set_vector(kFactors, std::move(divisors));
}

void gemma4_hf(HfKeys& keys) {
  const std::uint32_t layers = keys.size("num_hidden_layers");
  const auto types = keys.layer_texts("layer_types");
  if (keys.error() || types.empty()) {
    keys.refuse("layer_types", "missing");
    return;
  }
  std::vector<bool> is_windowed;
  for (const std::string& type : types) {
    is_windowed.push_back(type == "sliding_attention");
    if (!is_windowed.back() && type != "full_attention") {
      keys.refuse("layer_types", "a list with '" + type + "'");
    }
  }
  keys.set_flags("attention.sliding_window_pattern", is_windowed);
  gemma4_heads_hf(keys, is_windowed);
  const std::uint32_t shared = keys.size("num_kv_shared_layers");
  keys.set_count("attention.shared_kv_layers", shared);
  keys.set_count("embedding_length_per_layer_input", keys.size("hidden_size_per_layer_input"));
  if (keys.flag_or("use_double_wide_mlp", false)) {
    const std::uint32_t ffn_dim = std::min(keys.size("intermediate_size"), kWidthMax);
    std::vector<std::int32_t> counts;
    for (std::uint32_t i = 0; i < layers; ++i) {
      counts.push_back(static_cast<std::int32_t>(i + shared < layers ? ffn_dim : 2 * ffn_dim));
    }
    keys.set_counts("feed_forward_length", counts);
  }
  const double cap = keys.number_or("final_logit_softcapping", 0.0);
  if (cap != 0.0) keys.set_number("final_logit_softcapping", cap);
  if (!keys.flag_or("enable_moe_block", false)) return;
  keys.count("num_experts", "expert_count");
  keys.count("top_k_experts", "expert_used_count");
  const bool is_old = keys.has("expert_intermediate_size");
  keys.count(is_old ? "expert_intermediate_size" : "moe_intermediate_size",
             "expert_feed_forward_length");
}

void gemma4_hf_tensors(CheckpointReader& reader, const DecoderConfig& config) {
  const std::uint64_t cols = config.layer_embedding_dim();
  if (cols == 0) return;
  const std::uint64_t all = config.layer_count * cols;
  const std::string& root = reader.root();
  reader.add(root + "embed_tokens_per_layer.weight", "per_layer_token_embd.weight",
             {config.vocabulary_count, all}, 0);
  reader.add(root + "per_layer_model_projection.weight", "per_layer_model_proj.weight",
             {all, config.layer.dim}, 0);
  reader.add(root + "per_layer_projection_norm.weight", "per_layer_proj_norm.weight", {cols}, 0);
}

}  // namespace

// Gemma 4, text: windowed layers have heads of another size, the last layers share keys and values
// with earlier ones, in small models each layer adds an embedding of the token, and one model has
// experts beside its dense matrices.
extern const Family kGemma4;
const Family kGemma4 = {.architecture = "gemma4",
                        .hf_architectures = kGemma4Hf,
                        .keys = kGemma4Keys,
                        .plan = plan_gemma4,
                        .tensors = gemma4_layer,
                        .rope_tensors = read_gemma4_factors,
                        .hf = gemma4_hf,
                        .hf_tensors = gemma4_hf_tensors,
                        .hf_activation = "gelu_pytorch_tanh",
                        .hf_rope_types = kGemma4Rope};

}  // namespace edgedraft
