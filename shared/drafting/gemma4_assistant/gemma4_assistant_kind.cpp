#include "shared/drafting/gemma4_assistant/gemma4_assistant_kind.h"

#include <string>
#include <utility>

#include "shared/drafting/gemma4_assistant/assistant_network.h"
#include "shared/drafting/gemma4_assistant/assistant_source.h"
#include "shared/drafting/gemma4_assistant/assistant_tap.h"
#include "shared/drafting/network_kind.h"

namespace edgedraft {
namespace {

struct Assistant {
  using Model = AssistantModel;

  static DrafterFacts facts(const Model& model) {
    DrafterFacts facts{
        .vocabulary_count = model.sizes.vocabulary_count,
        .context_count = model.sizes.context_length,
        .step_bytes = model.output.bytes.size() + model.fc_embedding.bytes.size() +
                      model.fc_feature.bytes.size() + model.fc_next.bytes.size(),
        .tap = std::string(kGemma4AssistantKind.name),
        .pace_name = std::string(kGemma4AssistantKind.name),
        .target = {.layer_count = model.sizes.target_layer_count, .dim = model.target_dim}};
    for (const LayerTensors& layer : model.layers) facts.step_bytes += matrix_bytes(layer);
    for (const AssistantMemory& memory : model.memories) {
      facts.target.keys.push_back(
          {.layer = memory.layer, .cols = memory.heads.kv_cols(), .window = memory.window});
    }
    return facts;
  }
  static std::unique_ptr<DrafterWeights> load(const Model& model, Backend& backend,
                                              std::uint32_t positions_max) {
    auto weights = std::make_shared<AssistantWeights>(backend, model, positions_max);
    const std::uint64_t bytes = weights->sequence_bytes();
    return share_weights<AssistantDrafter>(std::move(weights), bytes);
  }
  static std::unique_ptr<Tap> make_tap(const Model& model, Backend& backend) {
    return std::make_unique<AssistantTap>(backend, model);
  }
};

}  // namespace

std::unique_ptr<DrafterModel> make_assistant_model(AssistantModel model) {
  return std::make_unique<NetworkModel<Assistant>>(std::move(model));
}

const DrafterKind kGemma4AssistantKind = {
    .name = "gemma4-assistant",
    .is_bundle = has_architecture<kAssistantArchitecture>,
    .read = read_network<Assistant, read_assistant>,
    .is_source = is_assistant_source,
    .plan_bundle = plan_assistant_bundle,
    .takes_target = check_assistant_target,
    .is_from_target = [](std::string_view tensor) { return tensor == "token_embd.weight"; }};

}  // namespace edgedraft
