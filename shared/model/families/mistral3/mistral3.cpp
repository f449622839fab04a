#include "shared/model/families/family.h"
#include "shared/model/families/hf_keys.h"

namespace edgedraft {
namespace {

constexpr std::string_view kMistral3Hf[] = {"Ministral3ForCausalLM",
                                            "Mistral3ForConditionalGeneration"};
constexpr std::string_view kTemperature = "attention.temperature_scale";
constexpr std::string_view kMagnitude = "rope.scaling.yarn_log_multiplier";
constexpr std::string_view kMistral3Keys[] = {
    kTemperature, kMagnitude, "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"};

void plan_mistral3(PlanKeys& keys, DecoderConfig& config) {
  config.query_growth = {.scale = keys.not_negative_or(kTemperature, 0.0f),
                         .length = keys.count_or("rope.scaling.original_context_length",
                                                 0x7FFFFFFFu, config.context_length)};
}

void mistral3_hf(HfKeys& keys) {
  if (keys.has_in_rope("llama_4_scaling_beta")) {
    keys.set_number(kTemperature, keys.positive_in_rope("llama_4_scaling_beta"));
  }
  if (keys.has_in_rope("mscale_all_dim")) {
    keys.set_number(kMagnitude, keys.positive_in_rope("mscale_all_dim"));
  }
}

}  // namespace

// Mistral Small 3 and Ministral 3, text: a Llama whose queries grow with their position.
extern const Family kMistral3;
const Family kMistral3 = {.architecture = "mistral3",
                          .hf_architectures = kMistral3Hf,
                          .rope_style = RopeStyle::pairs,
                          .keys = kMistral3Keys,
                          .plan = plan_mistral3,
                          .tensors = llama_layer,
                          .hf = mistral3_hf};

}  // namespace edgedraft
