#include "shared/drafting/moa/moa_kind.h"

#include <utility>

#include "shared/drafting/moa/moa_bundle.h"
#include "shared/drafting/moa/moa_drafter.h"
#include "shared/drafting/moa/moa_row.h"
#include "shared/drafting/moa/moa_tap.h"
#include "shared/drafting/moa/moa_tensors.h"
#include "shared/model/convert/convert.h"
#include "shared/model/safetensors.h"

namespace edgedraft {
namespace {

// The cross-attention's keys and values are projected when activations arrive.
std::uint64_t step_bytes(const MoaTensors& t) {
  std::uint64_t bytes = t.output.value_or(t.token_embd).bytes.size() +
                        matrix_bytes(t.self_attention) + matrix_bytes(t.cross_attention) -
                        t.cross_attention.attn_k.bytes.size() -
                        t.cross_attention.attn_v.bytes.size();
  for (const LayerTensors& layer : t.tli) bytes += matrix_bytes(layer);
  return bytes;
}

class LoadedMoa final : public DrafterWeights {
 public:
  explicit LoadedMoa(std::shared_ptr<MoaWeights> weights) : weights_(std::move(weights)) {}

  std::unique_ptr<Drafter> make_drafter() override {
    return std::make_unique<MoaDrafter>(weights_, latest_);
  }
  std::uint64_t drafter_bytes() const override { return weights_->sequence_bytes(); }

 private:
  std::shared_ptr<MoaWeights> weights_;
  SharedLogits latest_ = make_shared_logits();
};

class MoaFile final : public DrafterModel {
 public:
  explicit MoaFile(MoaModel model) : model_(std::move(model)) {
    const MoaConfig& config = model_.config;
    const std::string tli = "tli" + std::to_string(config.tli);
    facts_ = {.vocabulary_count = config.vocabulary_count,
              .context_count = config.context_length,
              .step_bytes = step_bytes(model_.tensors),
              .tap = "moa-" + std::string(to_string(moa_row_layout(config).cut)) + "-" + tli,
              .pace_name = "moa-" + tli,
              .target = {.layer_count = config.target_layer_count,
                         .dim = config.target_layer.dim,
                         .kv_heads = config.target_layer.heads.kv_heads,
                         .head_dim = config.target_layer.heads.head_dim}};
  }

  const DrafterFacts& facts() const override { return facts_; }
  std::unique_ptr<DrafterWeights> load(Backend& backend,
                                       std::uint32_t positions_max) const override {
    return std::make_unique<LoadedMoa>(
        std::make_shared<MoaWeights>(backend, model_.config, model_.tensors, positions_max));
  }
  std::unique_ptr<Tap> make_tap(Backend& backend) const override {
    return std::make_unique<MoaTap>(backend, model_.config, model_.tensors);
  }

 private:
  MoaModel model_;
  DrafterFacts facts_;
};

bool is_bundle(const GgufFile& file) {
  const auto architecture = file.architecture();
  return architecture && *architecture == kMoaArchitecture;
}

Result<std::unique_ptr<DrafterModel>> read(const GgufFile& file) {
  auto model = read_moa(file);
  if (!model) return model.error();
  return make_moa_model(std::move(*model));
}

bool is_source(const std::filesystem::path& drafter) {
  if (!std::filesystem::is_directory(drafter)) return false;
  const auto checkpoint = SafetensorsModel::open(drafter);
  return checkpoint && checkpoint->find("Ekv2E.weight") != nullptr;
}

Result<ModelPlan> plan_bundle(const BundleSource& source) {
  auto checkpoint = SafetensorsModel::open(source.drafter);
  if (!checkpoint) return checkpoint.error();
  return plan_moa_bundle({.target = source.target,
                          .checkpoint = std::move(*checkpoint),
                          .directory = source.drafter,
                          .type = source.type.value_or(kTypeOfDirectories)});
}

bool is_from_target(std::string_view tensor) {
  return tensor == "token_embd.weight" || tensor == "output.weight" || tensor.starts_with("tli.");
}

}  // namespace

std::unique_ptr<DrafterModel> make_moa_model(MoaModel model) {
  return std::make_unique<MoaFile>(std::move(model));
}

const DrafterKind kMoaKind = {.name = "moa",
                              .is_bundle = is_bundle,
                              .read = read,
                              .is_source = is_source,
                              .plan_bundle = plan_bundle,
                              .is_from_target = is_from_target};

}  // namespace edgedraft
