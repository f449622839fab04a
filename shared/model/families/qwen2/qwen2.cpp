#include "shared/model/families/family.h"

namespace edgedraft {
namespace {
constexpr std::string_view kQwen2Hf[] = {"Qwen2ForCausalLM"};
}  // namespace

// Qwen2 and 2.5: a Llama with biases of queries, keys and values.
extern const Family kQwen2;
const Family kQwen2 = {
    .architecture = "qwen2", .hf_architectures = kQwen2Hf, .tensors = llama_layer};

}  // namespace edgedraft
