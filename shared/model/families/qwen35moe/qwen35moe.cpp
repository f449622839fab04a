#include "shared/model/families/qwen35/hybrid.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

constexpr std::string_view kQwen35MoeHf[] = {"Qwen3_5MoeForCausalLM",
                                             "Qwen3_5MoeForConditionalGeneration"};
constexpr std::string_view kQwen35MoeKeys[] = {"attention.recurrent_layers", "expert_count"};

void plan_qwen35moe(PlanKeys& keys, DecoderConfig& config) {
  plan_hybrid(keys, config);
  if (keys.error()) return;
  ExpertShape experts = read_experts(keys);
  experts.shared_ffn_dim = keys.count("expert_shared_feed_forward_length", kWidthMax);
  for (LayerPlan& plan : config.layers) plan.experts = experts;
  config.draft_layer.experts = experts;
}

void qwen35moe_layer(const LayerPlan& plan, LayerList& list) {
  using L = LayerTensors;
  const std::uint32_t dim = plan.shape.dim;
  const std::uint32_t shared = plan.experts.shared_ffn_dim;
  hybrid_mixer(plan, list);
  list.experts(plan);
  list.matrix("ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight", &L::share, 1, dim);
  list.matrix("ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight", &L::shared_gate,
              shared, dim);
  list.matrix("ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight", &L::shared_up, shared,
              dim);
  list.matrix("ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight", &L::shared_down, dim,
              shared);
}

void qwen35moe_hf(HfKeys& keys) {
  hybrid_hf(keys);
  keys.count("num_experts", "expert_count");
  keys.count("num_experts_per_tok", "expert_used_count");
  keys.count("moe_intermediate_size", "expert_feed_forward_length");
  keys.count("shared_expert_intermediate_size", "expert_shared_feed_forward_length");
}

}  // namespace

// Qwen3.5 with experts, one of which every row uses.
extern const Family kQwen35Moe;
const Family kQwen35Moe = {.architecture = "qwen35moe",
                           .hf_architectures = kQwen35MoeHf,
                           .keys = kQwen35MoeKeys,
                           .plan = plan_qwen35moe,
                           .tensors = qwen35moe_layer,
                           .hf = qwen35moe_hf,
                           .hf_tensors = hybrid_hf_tensors,
                           .hf_defaults = kHybridDefaults,
                           .hf_norms_plus_one = true,
                           .hf_plain_norm = kHybridPlainNorm};

}  // namespace edgedraft
