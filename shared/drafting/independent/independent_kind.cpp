#include "shared/drafting/independent/independent_kind.h"

#include <string>
#include <utility>

#include "shared/drafting/independent/independent_bundle.h"
#include "shared/drafting/independent/independent_network.h"
#include "shared/drafting/network_kind.h"
#include "shared/model/convert/convert.h"
#include "shared/runtime/kv_cache.h"

namespace edgedraft {
namespace {

struct Independent {
  using Model = DecoderModel;

  static DrafterFacts facts(const Model& model) {
    const DecoderTensors& t = model.tensors;
    std::uint64_t bytes = t.output.value_or(t.token_embd).bytes.size();
    for (const LayerTensors& layer : t.layers) bytes += matrix_bytes(layer);
    return {.vocabulary_count = model.config.vocabulary_count,
            .context_count = model.config.context_length,
            .step_bytes = bytes,
            .tap = {},
            .pace_name = std::string(kIndependentKind.name)};
  }
  static std::unique_ptr<DrafterWeights> load(const Model& model, Backend& backend,
                                              std::uint32_t positions_max) {
    auto decoder = std::make_shared<Decoder>(backend, model.config, model.tensors, positions_max);
    const KvCache::Size cache{.layers = model.config.layer_count,
                              .kv_cols = model.config.layer.heads.kv_cols(),
                              .capacity = decoder->slots_max(),
                              .type = backend.drafter_cache_type()};
    return share_weights<IndependentDrafter>(std::move(decoder), cache.bytes());
  }
  static std::unique_ptr<Tap> make_tap(const Model& /*model*/, Backend& /*backend*/) {
    return nullptr;
  }
};

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
  return std::make_unique<NetworkModel<Independent>>(std::move(model));
}

const DrafterKind kIndependentKind = {
    .name = "independent",
    .is_bundle =
        [](const GgufFile& file) {
          const auto architecture = file.architecture();
          return architecture && (*architecture == "llama" || *architecture == "qwen2");
        },
    .read = read_network<Independent, read_draft_decoder>,
    // Reading reports unsuitable folders and files by name.
    .is_source = [](const std::filesystem::path& /*drafter*/) { return true; },
    .plan_bundle = plan_bundle};

}  // namespace edgedraft
