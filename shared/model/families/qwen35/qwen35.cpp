#include "shared/model/families/qwen35/hybrid.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

constexpr std::string_view kQwen35Keys[] = {"attention.recurrent_layers"};

void qwen35_layer(const LayerPlan& plan, LayerList& list) {
  hybrid_mixer(plan, list);
  list.dense(plan);
}

}  // namespace

void plan_hybrid(PlanKeys& keys, DecoderConfig& config) {
  const std::uint32_t interval = keys.count_or("full_attention_interval", kLayerCountMax, 4);
  const std::uint32_t blocks = config.layer_count;
  config.other_layer_count = keys.size_or("nextn_predict_layers", 0);  // drafters of its own
  if (config.other_layer_count >= blocks) {
    keys.fail(bad_file(keys.full("nextn_predict_layers") + " leaves no layer"));
    return;
  }
  config.layer_count = blocks - config.other_layer_count;
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
  config.layers.assign(config.layer_count, {.shape = config.layer, .output_gate = true});
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    if (recurrent.empty() ? (i + 1) % interval != 0 : recurrent[i]) config.layers[i] = mixing;
  }
}

void hybrid_mixer(const LayerPlan& plan, LayerList& list) {
  using L = LayerTensors;
  const std::uint32_t dim = plan.shape.dim;
  list.vector("post_attention_norm.weight", "", &L::ffn_norm, dim);
  if (plan.mixer == Mixer::attention) {
    list.attention(plan);
    list.head_norms(plan);
    // A head's rows of queries are followed by those of its gate.
    const HeadShape& heads = plan.shape.heads;
    for (LayerTensor& tensor : list.tensors()) {
      if (tensor.part != &L::attn_q) continue;
      tensor.stored_rows = 2 * heads.query_cols();
      tensor.group = heads.head_dim;
    }
    LayerTensor& gate = list.matrix("attn_q.weight", "", &L::attn_gate, heads.query_cols(), dim);
    gate.stored_rows = 2 * heads.query_cols();
    gate.first_row = heads.head_dim;
    gate.group = heads.head_dim;
    return;
  }
  const DeltaShape& delta = plan.delta;
  list.vector("attn_norm.weight", "", &L::attn_norm, dim);
  list.matrix("attn_qkv.weight", "", &L::delta_qkv, delta.mixed_cols(), dim);
  list.matrix("attn_gate.weight", "", &L::delta_gate, delta.value_cols(), dim);
  list.vector("ssm_conv1d.weight", "", &L::conv_taps, plan.taps).rows = delta.mixed_cols();
  list.matrix("ssm_alpha.weight", "", &L::delta_alpha, delta.value_heads, dim);
  list.matrix("ssm_beta.weight", "", &L::delta_beta, delta.value_heads, dim);
  list.vector("ssm_dt.bias", "", &L::delta_time, delta.value_heads);
  list.vector("ssm_a", "", &L::delta_decay, delta.value_heads);
  list.vector("ssm_norm.weight", "", &L::delta_norm, delta.dim);
  list.matrix("ssm_out.weight", "", &L::delta_output, dim, delta.value_cols());
}

// Qwen3.5 and later, text: three of four layers are gated delta nets, the others attend with an
// output gate. The block that drafts (MTP) is not read.
extern const Family kQwen35;
const Family kQwen35 = {
    .architecture = "qwen35", .keys = kQwen35Keys, .plan = plan_hybrid, .tensors = qwen35_layer};

}  // namespace edgedraft
