#include <algorithm>
#include <string>

#include "shared/model/families/checkpoint_reader.h"
#include "shared/model/families/qwen35/hybrid.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

constexpr std::string_view kMtp = "mtp.";
constexpr std::string_view kQwen35Hf[] = {"Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"};
constexpr std::string_view kQwen35Keys[] = {"attention.recurrent_layers"};

void qwen35_layer(const LayerPlan& plan, LayerList& list) {
  hybrid_mixer(plan, list);
  list.dense(plan);
}

}  // namespace

void plan_hybrid(PlanKeys& keys, DecoderConfig& config) {
  const std::uint32_t interval = keys.count_or("full_attention_interval", kLayerCountMax, 4);
  const std::uint32_t blocks = config.layer_count;
  config.other_layer_count = keys.size_or("nextn_predict_layers", 0);
  if (config.other_layer_count >= blocks) {
    keys.fail(bad_file(keys.full("nextn_predict_layers") + " leaves no layer"));
    return;
  }
  config.layer_count = blocks - config.other_layer_count;
  config.draft_layer = {.shape = config.layer, .output_gate = true};
  LayerPlan mixing{.shape = config.layer, .mixer = Mixer::delta_rule};
  mixing.delta = {.key_heads = keys.count("ssm.group_count", kWidthMax),
                  .value_heads = keys.count("ssm.time_step_rank", kWidthMax),
                  .dim = keys.count("ssm.state_size", kDeltaDimMax)};
  mixing.taps = keys.count("ssm.conv_kernel", kTapsMax);
  const DeltaShape& delta = mixing.delta;
  if (delta.value_heads % delta.key_heads != 0 || mixing.taps < 2 ||
      delta.value_heads > kWidthMax / delta.dim || delta.key_heads > kWidthMax / delta.dim ||
      keys.count("ssm.inner_size", kWidthMax) != delta.value_cols()) {
    keys.fail(bad_file("the sizes of " + keys.full("ssm") + " do not fit together"));
    return;
  }
  const std::vector<bool> recurrent = keys.flags("attention.recurrent_layers", config.layer_count);
  config.layers.assign(config.layer_count, config.draft_layer);
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    if (recurrent.empty() ? (i + 1) % interval != 0 : recurrent[i]) config.layers[i] = mixing;
  }
}

void hybrid_mixer(const LayerPlan& plan, LayerList& list) {
  using L = LayerTensors;
  const std::uint32_t dim = plan.shape.dim;
  list.vector("post_attention_norm.weight", "post_attention_layernorm.weight", &L::ffn_norm, dim);
  if (plan.mixer == Mixer::attention) {
    list.attention(plan);
    list.head_norms(plan);
    // A head's rows of queries are followed by those of its gate.
    const HeadShape& heads = plan.shape.heads;
    LayerTensor& queries = list.of(&L::attn_q);
    queries.stored_rows = 2 * heads.query_cols();
    queries.group = heads.head_dim;
    LayerTensor& gate = list.matrix("attn_q.weight", "", &L::attn_gate, heads.query_cols(), dim);
    gate.stored_rows = 2 * heads.query_cols();
    gate.first_row = heads.head_dim;
    gate.group = heads.head_dim;
    return;
  }
  const DeltaShape& delta = plan.delta;
  // Hugging Face groups value heads by the key head that they share, GGUF alternates key heads.
  const auto heads_of = [&](std::uint32_t size, std::uint32_t before = 0) {
    return SourceOrder{.fixed = before,
                       .outer = delta.key_heads,
                       .inner = delta.value_heads / delta.key_heads,
                       .block = size};
  };
  const SourceLayout mixed = {.rows = heads_of(delta.dim, 2 * delta.key_cols())};
  const SourceLayout rows = {.rows = heads_of(1)};
  const auto hf = [](std::string_view name, const SourceLayout& layout) {
    return HfSource{.name = name, .layout = layout};
  };
  list.vector("attn_norm.weight", "input_layernorm.weight", &L::attn_norm, dim);
  list.matrix("attn_qkv.weight", "", &L::delta_qkv, delta.mixed_cols(), dim).hf =
      hf("linear_attn.in_proj_qkv.weight", mixed);
  list.matrix("attn_gate.weight", "", &L::delta_gate, delta.value_cols(), dim).hf =
      hf("linear_attn.in_proj_z.weight", {.rows = heads_of(delta.dim)});
  LayerTensor& taps = list.vector("ssm_conv1d.weight", "", &L::conv_taps, plan.taps);
  taps.rows = delta.mixed_cols();
  taps.hf = hf("linear_attn.conv1d.weight", mixed);
  list.matrix("ssm_alpha.weight", "", &L::delta_alpha, delta.value_heads, dim).hf =
      hf("linear_attn.in_proj_a.weight", rows);
  list.matrix("ssm_beta.weight", "", &L::delta_beta, delta.value_heads, dim).hf =
      hf("linear_attn.in_proj_b.weight", rows);
  list.vector("ssm_dt.bias", "", &L::delta_time, delta.value_heads).hf =
      hf("linear_attn.dt_bias", {.cols = heads_of(1)});
  list.vector("ssm_a", "", &L::delta_decay, delta.value_heads).hf =
      hf("linear_attn.A_log", {.cols = heads_of(1), .negative_exponent = true});
  list.vector("ssm_norm.weight", "linear_attn.norm.weight", &L::delta_norm, delta.dim);
  list.matrix("ssm_out.weight", "", &L::delta_output, dim, delta.value_cols()).hf =
      hf("linear_attn.out_proj.weight", {.cols = heads_of(delta.dim)});
}

void hybrid_hf(HfKeys& keys) {
  keys.count("linear_conv_kernel_dim", "ssm.conv_kernel");
  keys.count("linear_num_key_heads", "ssm.group_count");
  const std::uint32_t key_dim = keys.count("linear_key_head_dim", "ssm.state_size");
  const std::uint64_t heads = keys.count("linear_num_value_heads", "ssm.time_step_rank");
  if (keys.size("linear_value_head_dim") != key_dim) {
    keys.refuse("linear_value_head_dim", "not linear_key_head_dim, which is not supported");
  }
  const std::uint64_t inner = std::min<std::uint64_t>(heads * key_dim, kWidthMax + 1u);
  keys.set_count("ssm.inner_size", static_cast<std::uint32_t>(inner));
  const std::uint32_t interval = keys.size("full_attention_interval");
  keys.set_count("full_attention_interval",
                 keys.full_attention_period(interval == 0 ? 4 : interval));
  keys.require_flag("attn_output_gate", true, true);
  auto sections = keys.rope_sections();
  if (sections.empty()) sections = {11, 11, 10};  // the models' default
  sections.push_back(0);
  keys.set_counts("rope.dimension_sections", sections);
  if (!keys.has_tensor(std::string(kMtp) + "fc.weight")) return;
  if (keys.size("mtp_num_hidden_layers") > 1) {
    keys.refuse("mtp_num_hidden_layers", "above 1, which is not supported");
  }
  keys.set_count("nextn_predict_layers", 1);
  keys.set_count("block_count", keys.size("num_hidden_layers") + 1);
}

void hybrid_hf_tensors(CheckpointReader& reader, const DecoderConfig& config) {
  if (config.other_layer_count == 0) return;
  LayerList list;
  (*find_family(config.architecture))->tensors(config.draft_layer, list);
  const std::string from(kMtp);
  const std::string to = "blk." + std::to_string(config.layer_count) + ".";
  const std::uint64_t dim = config.layer.dim;
  reader.add_layer(from + "layers.0.", to, list, RopeStyle::halves);
  reader.add(from + "fc.weight", to + "nextn.eh_proj.weight", {dim, 2 * dim}, 0);
  reader.add(from + "pre_fc_norm_embedding.weight", to + "nextn.enorm.weight", {dim}, 0);
  reader.add(from + "pre_fc_norm_hidden.weight", to + "nextn.hnorm.weight", {dim}, 0);
  reader.add_if_there(from + "norm.weight", to + "nextn.shared_head_norm.weight", {dim}, 0);
}

// Qwen3.5 and later, text: three of four layers are gated delta nets, the others attend with an
// output gate. A block that drafts (MTP) may follow them.
extern const Family kQwen35;
const Family kQwen35 = {.architecture = "qwen35",
                        .hf_architectures = kQwen35Hf,
                        .keys = kQwen35Keys,
                        .plan = plan_hybrid,
                        .tensors = qwen35_layer,
                        .hf = hybrid_hf,
                        .hf_tensors = hybrid_hf_tensors,
                        .hf_defaults = kHybridDefaults,
                        .hf_norms_plus_one = true,
                        .hf_plain_norm = kHybridPlainNorm};

}  // namespace edgedraft
