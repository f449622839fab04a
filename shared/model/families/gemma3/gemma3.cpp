#include <cmath>

#include "shared/model/families/family.h"
#include "shared/model/families/hf_keys.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

constexpr std::string_view kGemma3Hf[] = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"};
constexpr std::string_view kGemma3Keys[] = {
    "attention.sliding_window", "attention.sliding_window_pattern", "final_logit_softcapping",
    "attention.scale",          "attn_logit_softcapping",           "rope.freq_base_swa"};

void plan_gemma3(PlanKeys& keys, DecoderConfig& config) {
  const std::uint32_t window = keys.count("attention.sliding_window", 0x7FFFFFFFu);
  const std::uint32_t period = keys.count_or("attention.sliding_window_pattern", kLayerCountMax, 6);
  // No key of llama.cpp's tells that the 27 B model scales by its width per head.
  constexpr std::uint32_t k27BLayers = 62;
  const float per_head =
      static_cast<float>(config.layer.dim) / static_cast<float>(config.layer.heads.query_heads);
  const float usual_scale = config.layer_count == k27BLayers ? 1.0f / std::sqrt(per_head) : 0.0f;
  const float own_scale = keys.number_or("attention.scale", usual_scale);
  if (keys.number_or("attn_logit_softcapping", 0.0f) != 0.0f) {
    keys.refuse("attn_logit_softcapping", " is not supported: Gemma 3 has none");
  }
  config.embedding_scale = std::sqrt(static_cast<float>(config.layer.dim));
  config.logit_cap = keys.not_negative_or("final_logit_softcapping", 0.0f);
  config.window_rope = {.theta = keys.positive_or("rope.freq_base_swa", 10000.0f),
                        .style = config.rope.style,
                        .rotated = config.rope.rotated,
                        .frequency_divisors = {},
                        .long_divisors = {}};
  config.layers.assign(
      config.layer_count,
      {.shape = config.layer, .attention_scale = own_scale, .activation = Activation::gelu});
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    if (i % period == period - 1) continue;
    config.layers[i].window = window;
    config.layers[i].rope = LayerPlan::Rope::window;
  }
}

void gemma3_layer(const LayerPlan& plan, LayerList& list) {
  using L = LayerTensors;
  const std::uint32_t dim = plan.shape.dim;
  list.attention(plan);
  list.head_norms(plan);
  list.vector("post_attention_norm.weight", "post_attention_layernorm.weight", &L::post_attn_norm,
              dim);
  list.vector("ffn_norm.weight", "pre_feedforward_layernorm.weight", &L::ffn_norm, dim);
  list.dense(plan);
  list.vector("post_ffw_norm.weight", "post_feedforward_layernorm.weight", &L::post_ffn_norm, dim);
}

void gemma3_hf(HfKeys& keys) {
  const std::uint32_t period = keys.size("sliding_window_pattern");
  keys.set_count("attention.sliding_window_pattern",
                 keys.full_attention_period(period == 0 ? 6 : period));
  keys.set_number("rope.freq_base_swa",
                  keys.window_theta_or(keys.number_or("rope_local_base_freq", 10000.0)));
  const double scalar = keys.number_or("query_pre_attn_scalar", 256.0);
  if (scalar != keys.size("head_dim")) keys.set_number("attention.scale", 1.0 / std::sqrt(scalar));
  const double cap = keys.number_or("final_logit_softcapping", 0.0);
  if (cap != 0.0) keys.set_number("final_logit_softcapping", cap);
  if (keys.has("attn_logit_softcapping")) keys.refuse("attn_logit_softcapping", "not supported");
  keys.require_flag("use_bidirectional_attention", false, false);
}

// The values of configurations that leave keys out, such as the 4 B model's.
constexpr std::string_view kGemma3Defaults = R"({
  "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208,
  "max_position_embeddings": 131072, "rope_theta": 1000000.0, "sliding_window": 4096,
  "tie_word_embeddings": true})";

}  // namespace

// Gemma 3, text: five of six layers see a window; norms before and after everything.
extern const Family kGemma3;
const Family kGemma3 = {.architecture = "gemma3",
                        .hf_architectures = kGemma3Hf,
                        .keys = kGemma3Keys,
                        .plan = plan_gemma3,
                        .tensors = gemma3_layer,
                        .hf = gemma3_hf,
                        .hf_defaults = kGemma3Defaults,
                        .hf_activation = "gelu_pytorch_tanh",
                        .hf_norms_plus_one = true};

}  // namespace edgedraft
