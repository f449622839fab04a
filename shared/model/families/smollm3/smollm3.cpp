#include "shared/model/families/family.h"
#include "shared/model/families/hf_keys.h"

namespace edgedraft {
namespace {

constexpr std::string_view kSmolLm3Hf[] = {"SmolLM3ForCausalLM"};

constexpr std::uint32_t kStep = 4;  // no key tells it

void plan_smollm3(PlanKeys& /*keys*/, DecoderConfig& config) {
  config.layers.assign(config.layer_count, {.shape = config.layer});
  for (std::uint32_t i = kStep - 1; i < config.layer_count; i += kStep) {
    config.layers[i].rope = LayerPlan::Rope::none;
  }
}

// "no_rope_layers" has 1 for a layer that rotates.
void smollm3_hf(HfKeys& keys) {
  constexpr const char* kLayers = "no_rope_layers";
  constexpr const char* kInterval = "no_rope_layer_interval";
  const auto rotates = keys.layer_numbers(kLayers);
  for (std::size_t i = 0; i < rotates.size(); ++i) {
    if ((rotates[i] == 0) == ((i + 1) % kStep == 0)) continue;
    keys.refuse(kLayers, "not 0 at every fourth layer and 1 elsewhere, as GGUF requires");
    return;
  }
  if (rotates.empty() && keys.has(kInterval) && keys.size(kInterval) != kStep) {
    keys.refuse(kInterval, "not 4, as GGUF requires");
  }
}

}  // namespace

// SmolLM3: a Llama whose every fourth layer does not rotate.
extern const Family kSmolLm3;
const Family kSmolLm3 = {.architecture = "smollm3",
                         .hf_architectures = kSmolLm3Hf,
                         .rope_style = RopeStyle::pairs,
                         .plan = plan_smollm3,
                         .tensors = llama_layer,
                         .hf = smollm3_hf,
                         .hf_defaults = R"({"tie_word_embeddings": true})"};

}  // namespace edgedraft
