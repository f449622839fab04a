#include "shared/model/families/family.h"

namespace edgedraft {
namespace {

constexpr std::string_view kGptOssKeys[] = {"expert_count", "attention.sliding_window"};

void plan_gpt_oss(PlanKeys& keys, DecoderConfig& config) {
  const std::uint32_t window = keys.count("attention.sliding_window", 0x7FFFFFFFu);
  config.layers.assign(
      config.layer_count,
      {.shape = config.layer, .activation = Activation::clamped, .experts = read_experts(keys)});
  for (std::uint32_t i = 0; i < config.layer_count; i += 2) config.layers[i].window = window;
}

void gpt_oss_layer(const LayerPlan& plan, LayerList& list) {
  using L = LayerTensors;
  const ExpertShape& experts = plan.experts;
  const std::uint32_t dim = plan.shape.dim;
  const auto of_experts = [&](std::string_view name, LayerList::Part part, std::uint32_t cols) {
    list.vector(name, "", part, cols).rows = experts.count;
  };
  list.attention(plan);
  list.vector("attn_output.bias", "", &L::attn_o_bias, dim);
  list.vector("attn_sinks.weight", "", &L::attn_sinks, plan.shape.heads.query_heads);
  list.vector("post_attention_norm.weight", "", &L::ffn_norm, dim);
  list.experts(plan);
  list.vector("ffn_gate_inp.bias", "", &L::router_bias, experts.count);
  of_experts("ffn_gate_exps.bias", &L::experts_gate_bias, experts.ffn_dim);
  of_experts("ffn_up_exps.bias", &L::experts_up_bias, experts.ffn_dim);
  of_experts("ffn_down_exps.bias", &L::experts_down_bias, dim);
}

}  // namespace

// gpt-oss: windows in every second layer, sinks, biases, clamped experts in MXFP4.
extern const Family kGptOss;
const Family kGptOss = {
    .architecture = "gpt-oss", .keys = kGptOssKeys, .plan = plan_gpt_oss, .tensors = gpt_oss_layer};

}  // namespace edgedraft
