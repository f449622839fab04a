#include "shared/model/families/family.h"

namespace edgedraft {

// Llama 1 to 3, Mistral and the many models that use their architecture.
namespace {
constexpr std::string_view kLlamaHf[] = {"LlamaForCausalLM", "MistralForCausalLM"};
}  // namespace

extern const Family kLlama;
const Family kLlama = {.architecture = "llama",
                       .hf_architectures = kLlamaHf,
                       .rope_style = RopeStyle::pairs,
                       .tensors = llama_layer};

}  // namespace edgedraft
