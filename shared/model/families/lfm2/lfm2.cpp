#include <algorithm>

#include "shared/model/families/family.h"
#include "shared/model/families/hf_keys.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

constexpr std::string_view kLfm2Hf[] = {"Lfm2ForCausalLM"};
constexpr std::string_view kLfm2Defaults = R"({
  "intermediate_size": 12288, "block_multiple_of": 256, "rope_theta": 1000000.0,
  "tie_word_embeddings": true})";
constexpr std::string_view kLfm2Keys[] = {"attention.head_count_kv"};

void plan_lfm2(PlanKeys& keys, DecoderConfig& config) {
  const auto kv_heads = keys.counts("attention.head_count_kv", config.layer_count, kWidthMax);
  const std::uint32_t taps = keys.count("shortconv.l_cache", kTapsMax);
  if (taps < 2) keys.refuse("shortconv.l_cache", " is 1; a convolution has two taps or more");
  config.layers.assign(config.layer_count, {.shape = config.layer});
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    LayerPlan& plan = config.layers[i];
    plan.shape.heads.kv_heads = kv_heads[i];
    if (kv_heads[i] != 0 && kv_heads[i] != config.layer.heads.kv_heads) {
      keys.refuse("attention.head_count_kv", ": layers of different sizes are not supported");
    }
    if (kv_heads[i] != 0) continue;
    plan.mixer = Mixer::convolution;
    plan.taps = taps;
  }
}

void lfm2_layer(const LayerPlan& plan, LayerList& list) {
  using L = LayerTensors;
  const std::uint32_t dim = plan.shape.dim;
  if (plan.mixer == Mixer::attention) {
    list.attention(plan);
    list.head_norms(plan);
    list.of(&L::attn_output).hf.name = "self_attn.out_proj.weight";
    list.of(&L::attn_q_norm).hf.name = "self_attn.q_layernorm.weight";
    list.of(&L::attn_k_norm).hf.name = "self_attn.k_layernorm.weight";
  } else {
    list.vector("attn_norm.weight", "", &L::attn_norm, dim);
    list.matrix("shortconv.in_proj.weight", "conv.in_proj.weight", &L::conv_input, 3 * dim, dim);
    list.vector("shortconv.conv.weight", "conv.conv.weight", &L::conv_taps, plan.taps).rows = dim;
    list.matrix("shortconv.out_proj.weight", "conv.out_proj.weight", &L::conv_output, dim, dim);
  }
  list.ffn_norm(plan);
  list.dense(plan);
  list.of(&L::attn_norm).hf.name = "operator_norm.weight";
  list.of(&L::ffn_norm).hf.name = "ffn_norm.weight";
  list.of(&L::ffn_gate).hf.name = "feed_forward.w1.weight";
  list.of(&L::ffn_up).hf.name = "feed_forward.w3.weight";
  list.of(&L::ffn_down).hf.name = "feed_forward.w2.weight";
}

// The hidden size that a configuration names is, by default, that of a network without gates: two
// thirds of it, times a factor, are rounded up to a multiple.
void set_lfm2_hidden_size(HfKeys& keys) {
  const char* const key = keys.has("block_ff_dim") ? "block_ff_dim" : "intermediate_size";
  std::uint64_t size = keys.size(key);
  if (keys.flag_or("block_auto_adjust_ff_dim", true)) {
    const double factor = keys.number_or("block_ffn_dim_multiplier", 1.0);
    const std::uint64_t multiple = std::max(keys.size("block_multiple_of"), 1u);
    const double scaled = factor * static_cast<double>(2 * size / 3);
    size = scaled >= 0.0 && scaled <= kWidthMax ? static_cast<std::uint64_t>(scaled) : kWidthMax;
    size = (size + multiple - 1) / multiple * multiple;
  }
  if (size == 0 || size > kWidthMax) {
    keys.fail(bad_file(std::string("\"") + key +
                       "\" gives a hidden size that is not between 1 and " +
                       std::to_string(kWidthMax)));
    return;
  }
  keys.set_count("feed_forward_length", static_cast<std::uint32_t>(size));
}

void lfm2_hf(HfKeys& keys) {
  set_lfm2_hidden_size(keys);
  keys.set_number("attention.layer_norm_rms_epsilon", keys.number_or("norm_eps", 1e-5));
  keys.count("conv_L_cache", "shortconv.l_cache");
  keys.require_flag("conv_bias", false, false);
  const auto kv_heads =
      static_cast<std::int32_t>(std::min(keys.size("num_key_value_heads"), kWidthMax));
  const auto types = keys.layer_texts("layer_types");
  if (types.empty()) keys.fail(bad_file("\"layer_types\" is missing"));
  std::vector<std::int32_t> heads;
  for (const std::string& type : types) {
    if (type != "conv" && type != "full_attention") {
      keys.refuse("layer_types", "not a list of conv and full_attention");
    }
    heads.push_back(type == "conv" ? 0 : kv_heads);
  }
  keys.set_counts("attention.head_count_kv", heads);
}

}  // namespace

// LFM2: most layers are gated short convolutions.
extern const Family kLfm2;
const Family kLfm2 = {.architecture = "lfm2",
                      .hf_architectures = kLfm2Hf,
                      .keys = kLfm2Keys,
                      .output_norm = "token_embd_norm.weight",
                      .plan = plan_lfm2,
                      .tensors = lfm2_layer,
                      .hf = lfm2_hf,
                      .hf_defaults = kLfm2Defaults,
                      .hf_output_norm = "embedding_norm.weight"};

}  // namespace edgedraft
