#include "shared/drafting/independent/independent_kind.h"

#include <utility>

#include "shared/drafting/independent/independent_bundle.h"
#include "shared/drafting/independent/independent_drafter.h"
#include "shared/model/convert/convert.h"
#include "shared/model/decoder_tensors.h"
#include "shared/runtime/kv_cache.h"

namespace edgedraft {
namespace {

std::uint64_t step_bytes(const DecoderTensors& t) {
  std::uint64_t bytes = t.output.value_or(t.token_embd).bytes.size();
  for (const LayerTensors& layer : t.layers) bytes += matrix_bytes(layer);
  return bytes;
}

class LoadedDecoder final : public DrafterWeights {
 public:
  explicit LoadedDecoder(std::shared_ptr<Decoder> decoder) : decoder_(std::move(decoder)) {}

  std::unique_ptr<Drafter> make_drafter() override {
    return std::make_unique<IndependentDrafter>(decoder_, latest_);
  }
  std::uint64_t drafter_bytes() const override {
    const DecoderConfig& config = decoder_->config();
    return KvCache::Size{.layers = config.layer_count,
                         .kv_cols = config.layer.heads.kv_cols(),
                         .capacity = decoder_->slots_max(),
                         .type = decoder_->backend().drafter_cache_type()}
        .bytes();
  }

 private:
  std::shared_ptr<Decoder> decoder_;
  SharedLogits latest_ = make_shared_logits();
};

class DecoderFile final : public DrafterModel {
 public:
  explicit DecoderFile(DecoderModel model) : model_(std::move(model)) {
    facts_ = {.vocabulary_count = model_.config.vocabulary_count,
              .context_count = model_.config.context_length,
              .step_bytes = step_bytes(model_.tensors),
              .tap = {},
              .pace_name = std::string(kIndependentKind.name)};
  }

  const DrafterFacts& facts() const override { return facts_; }
  std::unique_ptr<DrafterWeights> load(Backend& backend,
                                       std::uint32_t positions_max) const override {
    return std::make_unique<LoadedDecoder>(
        std::make_shared<Decoder>(backend, model_.config, model_.tensors, positions_max));
  }

 private:
  DecoderModel model_;
  DrafterFacts facts_;
};

bool is_bundle(const GgufFile& file) {
  const auto architecture = file.architecture();
  return architecture && (*architecture == "llama" || *architecture == "qwen2");
}

Result<std::unique_ptr<DrafterModel>> read(const GgufFile& file) {
  auto model = read_draft_decoder(file);
  if (!model) return model.error();
  return make_independent_model(std::move(*model));
}

// What is no decoder is refused by name when it is read.
bool is_source(const std::filesystem::path& /*drafter*/) {
  return true;
}

Result<ModelPlan> plan_bundle(const BundleSource& source) {
  const auto config = read_decoder_config(source.target);
  if (!config) return config.error();
  auto plan = plan_model(source.drafter, source.type);
  if (!plan) return plan.error();
  if (auto bound = bind_to_target(source.target, *config, *plan); !bound) return bound.error();
  return plan;
}

}  // namespace

std::unique_ptr<DrafterModel> make_independent_model(DecoderModel model) {
  return std::make_unique<DecoderFile>(std::move(model));
}

const DrafterKind kIndependentKind = {.name = "independent",
                                      .is_bundle = is_bundle,
                                      .read = read,
                                      .is_source = is_source,
                                      .plan_bundle = plan_bundle};

}  // namespace edgedraft
