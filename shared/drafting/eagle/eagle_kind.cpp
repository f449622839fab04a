#include "shared/drafting/eagle/eagle_kind.h"

#include <string>
#include <utility>

#include "shared/drafting/eagle/eagle_bundle.h"
#include "shared/drafting/eagle/eagle_network.h"
#include "shared/drafting/network_kind.h"
#include "shared/drafting/state_tap.h"

namespace edgedraft {
namespace {

struct Eagle {
  using Model = EagleModel;

  static DrafterFacts facts(const Model& model) {
    const EagleConfig& config = model.config;
    const EagleTensors& t = model.tensors;
    return {.vocabulary_count = config.vocabulary_count,
            .context_count = config.context_length,
            .step_bytes = t.output.value_or(t.token_embd).bytes.size() +
                          t.fc_embedding.bytes.size() + t.fc_feature.bytes.size() +
                          matrix_bytes(t.layer),
            .tap = kFeatureTap,
            .pace_name =
                std::string(kEagleKind.name) + (config.variant.empty() ? "" : "-" + config.variant),
            .target = {.layer_count = config.target_layer_count, .dim = config.layer.dim}};
  }
  static std::unique_ptr<DrafterWeights> load(const Model& model, Backend& backend,
                                              std::uint32_t positions_max) {
    auto weights =
        std::make_shared<EagleWeights>(backend, model.config, model.tensors, positions_max);
    const std::uint64_t bytes = weights->sequence_bytes();
    return share_weights<EagleDrafter>(std::move(weights), bytes);
  }
  static std::unique_ptr<Tap> make_tap(const Model& model, Backend& backend) {
    return make_feature_tap(backend, model.config.target_layer_count, model.config.layer.dim);
  }
};

}  // namespace

std::unique_ptr<DrafterModel> make_eagle_model(EagleModel model) {
  return std::make_unique<NetworkModel<Eagle>>(std::move(model));
}

const DrafterKind kEagleKind = {.name = "eagle",
                                .is_bundle = has_architecture<kEagleArchitecture>,
                                .read = read_network<Eagle, read_eagle>,
                                .is_source = is_checkpoint_folder<is_eagle_checkpoint>,
                                .plan_bundle = plan_eagle_bundle,
                                .is_from_target = is_vocabulary};

}  // namespace edgedraft
