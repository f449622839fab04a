#include "shared/model/families/family.h"
#include "shared/model/families/hf_keys.h"

namespace edgedraft {
namespace {

constexpr std::string_view kQwen3MoeHf[] = {"Qwen3MoeForCausalLM"};
constexpr std::string_view kQwen3MoeKeys[] = {"expert_count"};

void plan_qwen3moe(PlanKeys& keys, DecoderConfig& config) {
  config.layers.assign(config.layer_count, {.shape = config.layer, .experts = read_experts(keys)});
}

void qwen3moe_layer(const LayerPlan& plan, LayerList& list) {
  list.attention(plan);
  list.head_norms(plan);
  list.ffn_norm(plan);
  list.experts(plan);
}

void qwen3moe_hf(HfKeys& keys) {
  keys.count("num_experts", "expert_count");
  keys.count("num_experts_per_tok", "expert_used_count");
  keys.count("moe_intermediate_size", "expert_feed_forward_length");
  keys.require_flag("norm_topk_prob", true, false);
}

}  // namespace

// Qwen3 with experts: its attention, and experts weighed by a softmax over the chosen.
extern const Family kQwen3Moe;
const Family kQwen3Moe = {.architecture = "qwen3moe",
                          .hf_architectures = kQwen3MoeHf,
                          .keys = kQwen3MoeKeys,
                          .plan = plan_qwen3moe,
                          .tensors = qwen3moe_layer,
                          .hf = qwen3moe_hf};

}  // namespace edgedraft
