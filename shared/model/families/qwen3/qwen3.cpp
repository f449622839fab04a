#include "shared/model/families/family.h"

namespace edgedraft {
namespace {

constexpr std::string_view kQwen3Hf[] = {"Qwen3ForCausalLM"};

void qwen3_layer(const LayerPlan& plan, LayerList& list) {
  list.attention(plan);
  list.head_norms(plan);
  list.ffn_norm(plan);
  list.dense(plan);
}

}  // namespace

// Qwen3, dense: heads of their own size, whose queries and keys are normed.
extern const Family kQwen3;
const Family kQwen3 = {
    .architecture = "qwen3", .hf_architectures = kQwen3Hf, .tensors = qwen3_layer};

}  // namespace edgedraft
