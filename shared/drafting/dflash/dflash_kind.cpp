#include "shared/drafting/dflash/dflash_kind.h"

#include <string>
#include <utility>

#include "shared/drafting/dflash/dflash_drafter.h"
#include "shared/drafting/dflash/dflash_source.h"
#include "shared/drafting/network_kind.h"

namespace edgedraft {
namespace {

struct Dflash {
  using Model = DflashModel;

  static DrafterFacts facts(const Model& model) {
    const DflashConfig& config = model.config;
    // One pass computes all levels.
    std::uint64_t bytes = model.tensors.output.value_or(model.tensors.token_embd).bytes.size();
    for (const LayerTensors& layer : model.tensors.layers) bytes += matrix_bytes(layer);
    const std::string name(kDflashKind.name);
    return {.vocabulary_count = config.vocabulary_count,
            .context_count = config.context_length,
            .step_bytes = bytes,
            .tap = name,
            .pace_name = name,
            .target = {.layer_count = config.target_layer_count, .dim = model.fusion.target_dim}};
  }
  static std::unique_ptr<DrafterWeights> load(const Model& model, Backend& backend,
                                              std::uint32_t positions_max) {
    auto weights = std::make_shared<DflashWeights>(backend, model, positions_max);
    const std::uint64_t bytes = weights->sequence_bytes();
    return share_weights<DflashDrafter>(std::move(weights), bytes, positions_max);
  }
  static std::unique_ptr<Tap> make_tap(const Model& model, Backend& backend) {
    return std::make_unique<FusedTap>(backend, model.fusion);
  }
};

}  // namespace

std::unique_ptr<DrafterModel> make_dflash_model(DflashModel model) {
  return std::make_unique<NetworkModel<Dflash>>(std::move(model));
}

const DrafterKind kDflashKind = {.name = "dflash",
                                 .is_bundle = has_architecture<kDflashArchitecture>,
                                 .read = read_network<Dflash, read_dflash>,
                                 .is_source = is_dflash_source,
                                 .plan_bundle = plan_dflash_bundle,
                                 .is_from_target = is_vocabulary};

}  // namespace edgedraft
