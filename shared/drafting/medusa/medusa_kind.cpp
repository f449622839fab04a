#include "shared/drafting/medusa/medusa_kind.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/medusa/medusa_bundle.h"
#include "shared/drafting/medusa/medusa_drafter.h"
#include "shared/drafting/state_tap.h"
#include "shared/model/convert/convert.h"
#include "shared/model/safetensors.h"

namespace edgedraft {
namespace {

// All heads run once for a tree.
std::uint64_t step_bytes(const MedusaTensors& t) {
  std::uint64_t bytes = t.output ? t.output->bytes.size() : 0;
  for (const MedusaTensors::Head& head : t.heads) {
    bytes += head.weight.bytes.size() + head.output.bytes.size();
  }
  return bytes;
}

class LoadedMedusa final : public DrafterWeights {
 public:
  LoadedMedusa(std::shared_ptr<MedusaHeads> heads, std::uint32_t positions_max)
      : heads_(std::move(heads)), positions_max_(positions_max) {}

  std::unique_ptr<Drafter> make_drafter() override {
    return std::make_unique<MedusaDrafter>(heads_, positions_max_);
  }
  // Some features in host memory, nothing on the backend.
  std::uint64_t drafter_bytes() const override { return 0; }

 private:
  std::shared_ptr<MedusaHeads> heads_;
  std::uint32_t positions_max_;
};

class MedusaFile final : public DrafterModel {
 public:
  explicit MedusaFile(MedusaModel model) : model_(std::move(model)) {
    const MedusaConfig& config = model_.config;
    facts_ = {.vocabulary_count = config.vocabulary_count,
              .context_count = config.context_length,
              .step_bytes = step_bytes(model_.tensors),
              .tap = kFeatureTap,
              .newest_row = true,
              .pace_name = std::string(kMedusaKind.name),
              .target = {.layer_count = config.target_layer_count, .dim = config.dim}};
  }

  const DrafterFacts& facts() const override { return facts_; }
  std::unique_ptr<DrafterWeights> load(Backend& backend,
                                       std::uint32_t positions_max) const override {
    return std::make_unique<LoadedMedusa>(
        std::make_shared<MedusaHeads>(backend, model_.config, model_.tensors), positions_max);
  }
  std::unique_ptr<Tap> make_tap(Backend& backend) const override {
    return std::make_unique<StateTap>(
        backend, std::vector<std::uint32_t>{model_.config.target_layer_count + 1},
        model_.config.dim);
  }

 private:
  MedusaModel model_;
  DrafterFacts facts_;
};

bool is_bundle(const GgufFile& file) {
  const auto architecture = file.architecture();
  return architecture && *architecture == kMedusaArchitecture;
}

Result<std::unique_ptr<DrafterModel>> read(const GgufFile& file) {
  auto model = read_medusa(file);
  if (!model) return model.error();
  return make_medusa_model(std::move(*model));
}

bool is_source(const std::filesystem::path& drafter) {
  if (!std::filesystem::is_directory(drafter)) return false;
  const auto checkpoint = SafetensorsModel::open(drafter);
  if (checkpoint) return is_medusa_checkpoint(*checkpoint);
  // Heads that have yet to be saved as safetensors; reading them says so.
  const auto config = read_drafter_config(drafter);
  return config && config->contains("medusa_num_heads");
}

Result<ModelPlan> plan_bundle(const BundleSource& source) {
  auto checkpoint = SafetensorsModel::open(source.drafter);
  if (!checkpoint) return checkpoint.error();
  return plan_medusa_bundle({.target = source.target,
                             .checkpoint = std::move(*checkpoint),
                             .directory = source.drafter,
                             .type = source.type.value_or(kTypeOfDirectories)});
}

bool is_from_target(std::string_view tensor) {
  return tensor == "token_embd.weight" || tensor == "output.weight";
}

}  // namespace

std::unique_ptr<DrafterModel> make_medusa_model(MedusaModel model) {
  return std::make_unique<MedusaFile>(std::move(model));
}

const DrafterKind kMedusaKind = {.name = "medusa",
                                 .is_bundle = is_bundle,
                                 .read = read,
                                 .is_source = is_source,
                                 .plan_bundle = plan_bundle,
                                 .is_from_target = is_from_target};

}  // namespace edgedraft
