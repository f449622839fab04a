#include "shared/drafting/moa/moa_kind.h"

#include <string>
#include <utility>

#include "shared/drafting/moa/moa_bundle.h"
#include "shared/drafting/moa/moa_network.h"
#include "shared/drafting/moa/moa_tap.h"
#include "shared/drafting/network_kind.h"

namespace edgedraft {
namespace {

struct Moa {
  using Model = MoaModel;

  static DrafterFacts facts(const Model& model) {
    const MoaConfig& config = model.config;
    const std::string tli = "tli" + std::to_string(config.tli);
    return {.vocabulary_count = config.vocabulary_count,
            .context_count = config.context_length,
            .step_bytes = step_bytes(model.tensors),
            .tap = "moa-" + std::string(to_string(moa_row_layout(config).cut)) + "-" + tli,
            .pace_name = "moa-" + tli,
            .target = {.layer_count = config.target_layer_count,
                       .dim = config.target_layer.dim,
                       .kv_heads = config.target_layer.heads.kv_heads,
                       .head_dim = config.target_layer.heads.head_dim}};
  }
  static std::unique_ptr<DrafterWeights> load(const Model& model, Backend& backend,
                                              std::uint32_t positions_max) {
    auto weights =
        std::make_shared<MoaWeights>(backend, model.config, model.tensors, positions_max);
    const std::uint64_t bytes = weights->sequence_bytes();
    return share_weights<MoaDrafter>(std::move(weights), bytes);
  }
  static std::unique_ptr<Tap> make_tap(const Model& model, Backend& backend) {
    return std::make_unique<MoaTap>(backend, model.config, model.tensors);
  }

 private:
  // Excludes the cross-attention's keys and values, which are projected when activations arrive.
  static std::uint64_t step_bytes(const MoaTensors& t) {
    std::uint64_t bytes = t.output.value_or(t.token_embd).bytes.size() +
                          matrix_bytes(t.self_attention) + matrix_bytes(t.cross_attention) -
                          t.cross_attention.attn_k.bytes.size() -
                          t.cross_attention.attn_v.bytes.size();
    for (const LayerTensors& layer : t.tli) bytes += matrix_bytes(layer);
    return bytes;
  }
};

bool is_moa_checkpoint(const SafetensorsModel& checkpoint) {
  return checkpoint.find("Ekv2E.weight") != nullptr;
}

}  // namespace

std::unique_ptr<DrafterModel> make_moa_model(MoaModel model) {
  return std::make_unique<NetworkModel<Moa>>(std::move(model));
}

const DrafterKind kMoaKind = {.name = "moa",
                              .is_bundle = has_architecture<kMoaArchitecture>,
                              .read = read_network<Moa, read_moa>,
                              .is_source = is_checkpoint_folder<is_moa_checkpoint>,
                              .plan_bundle = plan_moa_bundle,
                              .is_from_target = [](std::string_view tensor) {
                                return is_vocabulary(tensor) || tensor.starts_with("tli.");
                              }};

}  // namespace edgedraft
