#include "shared/model/families/family.h"

namespace edgedraft {
namespace {

constexpr std::string_view kSmolLm3Hf[] = {"SmolLM3ForCausalLM"};

void plan_smollm3(PlanKeys& /*keys*/, DecoderConfig& config) {
  constexpr std::uint32_t kStep = 4;  // no key tells it
  config.layers.assign(config.layer_count, {.shape = config.layer});
  for (std::uint32_t i = kStep - 1; i < config.layer_count; i += kStep) {
    config.layers[i].rope = LayerPlan::Rope::none;
  }
}

}  // namespace

// SmolLM3: a Llama whose every fourth layer does not rotate.
extern const Family kSmolLm3;
const Family kSmolLm3 = {.architecture = "smollm3",
                         .hf_architectures = kSmolLm3Hf,
                         .rope_style = RopeStyle::pairs,
                         .plan = plan_smollm3,
                         .tensors = llama_layer};

}  // namespace edgedraft
