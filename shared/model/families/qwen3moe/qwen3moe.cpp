#include "shared/model/families/family.h"

namespace edgedraft {
namespace {

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

}  // namespace

// Qwen3 with experts: its attention, and experts weighed by a softmax over the chosen.
extern const Family kQwen3Moe;
const Family kQwen3Moe = {.architecture = "qwen3moe",
                          .keys = kQwen3MoeKeys,
                          .plan = plan_qwen3moe,
                          .tensors = qwen3moe_layer};

}  // namespace edgedraft
