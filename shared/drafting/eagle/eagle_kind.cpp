#include "shared/drafting/eagle/eagle_kind.h"

#include <string>
#include <utility>
#include <vector>

#include "shared/drafting/eagle/eagle_bundle.h"
#include "shared/drafting/eagle/eagle_drafter.h"
#include "shared/drafting/state_tap.h"
#include "shared/model/convert/convert.h"
#include "shared/model/safetensors.h"

namespace edgedraft {
namespace {

std::uint64_t step_bytes(const EagleTensors& t) {
  return t.output.value_or(t.token_embd).bytes.size() + t.fc_embedding.bytes.size() +
         t.fc_feature.bytes.size() + matrix_bytes(t.layer);
}

class LoadedEagle final : public DrafterWeights {
 public:
  explicit LoadedEagle(std::shared_ptr<EagleWeights> weights) : weights_(std::move(weights)) {}

  std::unique_ptr<Drafter> make_drafter() override {
    return std::make_unique<EagleDrafter>(weights_, latest_);
  }
  std::uint64_t drafter_bytes() const override { return weights_->sequence_bytes(); }

 private:
  std::shared_ptr<EagleWeights> weights_;
  SharedLogits latest_ = make_shared_logits();
};

class EagleFile final : public DrafterModel {
 public:
  explicit EagleFile(EagleModel model) : model_(std::move(model)) {
    const EagleConfig& config = model_.config;
    facts_ = {.vocabulary_count = config.vocabulary_count,
              .context_count = config.context_length,
              .step_bytes = step_bytes(model_.tensors),
              .tap = kFeatureTap,
              .pace_name = std::string(kEagleKind.name) +
                           (config.variant.empty() ? "" : "-" + config.variant),
              .target = {.layer_count = config.target_layer_count, .dim = config.layer.dim}};
  }

  const DrafterFacts& facts() const override { return facts_; }
  std::unique_ptr<DrafterWeights> load(Backend& backend,
                                       std::uint32_t positions_max) const override {
    return std::make_unique<LoadedEagle>(
        std::make_shared<EagleWeights>(backend, model_.config, model_.tensors, positions_max));
  }
  std::unique_ptr<Tap> make_tap(Backend& backend) const override {
    return std::make_unique<StateTap>(
        backend, std::vector<std::uint32_t>{model_.config.target_layer_count + 1},
        model_.config.layer.dim);
  }

 private:
  EagleModel model_;
  DrafterFacts facts_;
};

bool is_bundle(const GgufFile& file) {
  const auto architecture = file.architecture();
  return architecture && *architecture == kEagleArchitecture;
}

Result<std::unique_ptr<DrafterModel>> read(const GgufFile& file) {
  auto model = read_eagle(file);
  if (!model) return model.error();
  return make_eagle_model(std::move(*model));
}

bool is_source(const std::filesystem::path& drafter) {
  if (!std::filesystem::is_directory(drafter)) return false;
  const auto checkpoint = SafetensorsModel::open(drafter);
  return checkpoint && is_eagle_checkpoint(*checkpoint);
}

Result<ModelPlan> plan_bundle(const BundleSource& source) {
  auto checkpoint = SafetensorsModel::open(source.drafter);
  if (!checkpoint) return checkpoint.error();
  return plan_eagle_bundle({.target = source.target,
                            .checkpoint = std::move(*checkpoint),
                            .directory = source.drafter,
                            .type = source.type.value_or(kTypeOfDirectories)});
}

bool is_from_target(std::string_view tensor) {
  return tensor == "token_embd.weight" || tensor == "output.weight";
}

}  // namespace

std::unique_ptr<DrafterModel> make_eagle_model(EagleModel model) {
  return std::make_unique<EagleFile>(std::move(model));
}

const DrafterKind kEagleKind = {.name = "eagle",
                                .is_bundle = is_bundle,
                                .read = read,
                                .is_source = is_source,
                                .plan_bundle = plan_bundle,
                                .is_from_target = is_from_target};

}  // namespace edgedraft
