#include "shared/drafting/medusa/medusa_kind.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/medusa/medusa_bundle.h"
#include "shared/drafting/medusa/medusa_drafter.h"
#include "shared/drafting/network_kind.h"
#include "shared/drafting/state_tap.h"

namespace edgedraft {
namespace {

struct Medusa {
  using Model = MedusaModel;

  static DrafterFacts facts(const Model& model) {
    const MedusaConfig& config = model.config;
    // All heads run once per tree.
    std::uint64_t bytes = model.tensors.output ? model.tensors.output->bytes.size() : 0;
    for (const MedusaTensors::Head& head : model.tensors.heads) {
      bytes += head.weight.bytes.size() + head.output.bytes.size();
    }
    return {.vocabulary_count = config.vocabulary_count,
            .context_count = config.context_length,
            .step_bytes = bytes,
            .tap = kFeatureTap,
            .newest_row = true,
            .pace_name = std::string(kMedusaKind.name),
            .target = {.layer_count = config.target_layer_count, .dim = config.dim}};
  }
  // Drafters keep some features in host memory and nothing on the backend.
  static std::unique_ptr<DrafterWeights> load(const Model& model, Backend& backend,
                                              std::uint32_t positions_max) {
    return share_weights<MedusaDrafter>(
        std::make_shared<MedusaHeads>(backend, model.config, model.tensors), 0, positions_max);
  }
  static std::unique_ptr<Tap> make_tap(const Model& model, Backend& backend) {
    return make_feature_tap(backend, model.config.target_layer_count, model.config.dim);
  }
};

// Accepts heads not yet saved as safetensors too; reading them reports that.
bool is_source(const std::filesystem::path& drafter) {
  if (!std::filesystem::is_directory(drafter)) return false;
  const auto checkpoint = SafetensorsModel::open(drafter);
  if (checkpoint) return is_medusa_checkpoint(*checkpoint);
  const auto config = read_drafter_config(drafter);
  return config && config->contains("medusa_num_heads");
}

}  // namespace

std::unique_ptr<DrafterModel> make_medusa_model(MedusaModel model) {
  return std::make_unique<NetworkModel<Medusa>>(std::move(model));
}

const DrafterKind kMedusaKind = {.name = "medusa",
                                 .is_bundle = has_architecture<kMedusaArchitecture>,
                                 .read = read_network<Medusa, read_medusa>,
                                 .is_source = is_source,
                                 .plan_bundle = plan_medusa_bundle,
                                 .is_from_target = is_vocabulary};

}  // namespace edgedraft
