#include <cmath>
#include <optional>

#include "shared/model/families/family.h"
#include "shared/model/gguf.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

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
  if (file.find_tensor("rope_freqs.weight") == nullptr) return missing_tensor("rope_freqs.weight");
  return read_rope_freqs(file, config.rope);
}

void gemma4_attention(const LayerPlan& plan, LayerList& list) {
  using L = LayerTensors;
  const HeadShape& heads = plan.shape.heads;
  const std::uint32_t dim = plan.shape.dim;
  list.vector("attn_norm.weight", "", &L::attn_norm, dim);
  list.matrix("attn_q.weight", "", &L::attn_q, heads.query_cols(), dim);
  list.vector("attn_q_norm.weight", "", &L::attn_q_norm, heads.head_dim);
  list.matrix("attn_output.weight", "", &L::attn_output, dim, heads.query_cols());
  list.vector("post_attention_norm.weight", "", &L::post_attn_norm, dim);
  if (plan.kv_back != 0) {
    for (const char* name : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"}) {
      list.unused(name);
    }
    return;
  }
  list.matrix("attn_k.weight", "", &L::attn_k, heads.kv_cols(), dim);
  list.matrix("attn_v.weight", "", &L::attn_v, heads.kv_cols(), dim).kind =
      LayerTensor::Kind::optional_matrix;
  list.vector("attn_k_norm.weight", "", &L::attn_k_norm, heads.head_dim);
  list.ones(&L::attn_v_norm, heads.head_dim);
}

void gemma4_experts(const LayerPlan& plan, LayerList& list) {
  using L = LayerTensors;
  const std::uint32_t dim = plan.shape.dim;
  list.experts(plan);
  list.vector("ffn_gate_inp.scale", "", &L::router_norm, dim);
  list.vector("pre_ffw_norm_2.weight", "", &L::experts_norm, dim);
  list.vector("post_ffw_norm_1.weight", "", &L::post_dense_norm, dim);
  list.vector("post_ffw_norm_2.weight", "", &L::post_experts_norm, dim);
  list.optional_vector("ffn_down_exps.scale", "", &L::experts_scale, plan.experts.count).kind =
      LayerTensor::Kind::optional_numbers;
}

void gemma4_layer(const LayerPlan& plan, LayerList& list) {
  using L = LayerTensors;
  const std::uint32_t dim = plan.shape.dim;
  gemma4_attention(plan, list);
  list.vector("ffn_norm.weight", "", &L::ffn_norm, dim);
  list.dense(plan);
  if (plan.experts.beside_dense) gemma4_experts(plan, list);
  list.vector("post_ffw_norm.weight", "", &L::post_ffn_norm, dim);
  list.optional_vector("layer_output_scale.weight", "", &L::output_scale, 1);
  if (plan.embedding_dim == 0) return;
  list.matrix("inp_gate.weight", "", &L::embd_gate, plan.embedding_dim, dim);
  list.matrix("proj.weight", "", &L::embd_output, dim, plan.embedding_dim);
  list.vector("post_norm.weight", "", &L::post_embd_norm, dim);
}

}  // namespace

// Gemma 4, text: windowed layers have heads of another size, the last layers share keys and values
// with earlier ones, in small models each layer adds an embedding of the token, and one model has
// experts beside its dense matrices.
extern const Family kGemma4;
const Family kGemma4 = {.architecture = "gemma4",
                        .keys = kGemma4Keys,
                        .plan = plan_gemma4,
                        .tensors = gemma4_layer,
                        .rope_tensors = read_gemma4_factors};

}  // namespace edgedraft
