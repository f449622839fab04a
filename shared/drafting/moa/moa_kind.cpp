#include "shared/drafting/moa/moa_kind.h"

#include <string>
#include <tuple>
#include <utility>

#include "shared/base/error.h"
#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/drafter_fit.h"
#include "shared/drafting/moa/moa_network.h"
#include "shared/drafting/moa/moa_tap.h"
#include "shared/drafting/network_kind.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/families/checkpoint_reader.h"
#include "shared/model/json_file.h"
#include "shared/model/model_plan.h"

namespace edgedraft {
namespace {

using nlohmann::json;

struct Sizes {
  std::uint32_t tli = 0;
  LayerShape sa;
  LayerShape ca;
  LayerShape lsa;
};

Result<Sizes> read_sizes(const json& config, const SafetensorsModel& checkpoint,
                         const DecoderConfig& target) {
  const auto made_for = check_made_for(config, {{"hidden_size", target.layer.dim},
                                                {"vocab_size", target.vocabulary_count},
                                                {"target_layers", target.layer_count}});
  if (!made_for) return made_for.error();
  Sizes sizes;
  const auto tli = json_u32(config, "tli");
  if (!tli) return tli.error();
  sizes.tli = tli->value_or(0);
  if (sizes.tli > target.layer_count) {
    return Error{Errc::mismatch, "the drafter's TLI exceeds the target's number of layers"};
  }
  const std::uint32_t lsa_dim = 2 * target.layer.heads.kv_cols();
  const auto lsa_heads = json_u32(config, "lsa_num_attention_heads");
  if (!lsa_heads) return lsa_heads.error();
  const std::uint32_t lsa_query_heads = lsa_heads->value_or(target.layer.heads.query_heads);
  if (lsa_query_heads == 0) {
    return Error{Errc::bad_file, "\"lsa_num_attention_heads\" is zero"};
  }
  const auto epsilon = json_number(config, "rms_norm_eps");
  if (!epsilon) return epsilon.error();
  const auto rms_epsilon = static_cast<float>(epsilon->value_or(target.layer.rms_epsilon));

  const struct {
    const char* prefix;
    std::uint32_t dim;
    std::uint32_t head_dim;
    LayerShape& out;
  } layers[] = {
      {"self_attention.", target.layer.dim, target.layer.heads.head_dim, sizes.sa},
      {"cross_attention.", target.layer.dim, target.layer.heads.head_dim, sizes.ca},
      {"layer_self_attention.", lsa_dim, lsa_dim / lsa_query_heads, sizes.lsa},
  };
  for (const auto& layer : layers) {
    const auto shape = infer_layer(checkpoint, {.prefix = layer.prefix,
                                                .dim = layer.dim,
                                                .head_dim = layer.head_dim,
                                                .rms_epsilon = rms_epsilon});
    if (!shape) return shape.error();
    layer.out = *shape;
  }
  return sizes;
}

Result<void> add_metadata(const GgufFile& file, const DecoderConfig& target, const Sizes& sizes,
                          float theta, GgufMetadata& metadata) {
  metadata.set_string("general.architecture", kMoaArchitecture);
  metadata.set_u32(std::string(moa_keys::kTli), sizes.tli);
  metadata.set_f32(std::string(moa_keys::kOutputNormEpsilon), target.layer.rms_epsilon);
  set_layer(metadata, moa_keys::kSa, sizes.sa, theta, RopeStyle::halves);
  set_layer(metadata, moa_keys::kCa, sizes.ca, theta, RopeStyle::halves);
  set_layer(metadata, moa_keys::kLsa, sizes.lsa, theta, RopeStyle::halves);
  set_layer(metadata, moa_keys::kTarget, target.layer, target.rope.theta, target.rope.style);
  return copy_identity(file, metadata);
}

void add_target_tensors(const GgufFile& file, const DecoderConfig& target, std::uint32_t tli,
                        ModelPlan& plan) {
  copy_vocabulary(file, plan);
  for (const GgufTensor& tensor : file.tensors()) {
    const std::string name(tensor.name);
    if (name == "output_norm.weight") plan.tensors.push_back(copy_of(tensor, name));
    for (std::uint32_t i = 0; i < tli; ++i) {
      const std::string prefix = "blk." + std::to_string(target.layer_count - tli + i) + ".";
      if (!name.starts_with(prefix)) continue;
      plan.tensors.push_back(
          copy_of(tensor, "tli." + std::to_string(i) + "." + name.substr(prefix.size())));
    }
  }
}

Result<void> add_moa(const CheckpointInput& input, ModelPlan& plan) {
  const DecoderConfig& target = input.target;
  if (auto taken = check_plain(target); !taken) return taken.error();
  const auto sizes = read_sizes(input.config, input.checkpoint, target);
  if (!sizes) return sizes.error();
  const MoaRowLayout row = moa_row_layout(target.layer.heads, sizes->ca.heads, sizes->tli);
  if (auto checked = check_row(row.scale_groups); !checked) return checked.error();
  const auto theta = json_number(input.config, "rope_theta");
  if (!theta) return theta.error();

  const float drafter_theta = static_cast<float>(theta->value_or(target.rope.theta));
  if (auto added = add_metadata(input.file, target, *sizes, drafter_theta, plan.metadata); !added) {
    return added.error();
  }
  // SA and the target's layers keep the target's scaling; CA and LSA have none.
  for (const char* prefix : {"sa.", "target."}) add_divisors(target.rope, prefix, plan);
  add_target_tensors(input.file, target, sizes->tli, plan);
  CheckpointReader reader(input.checkpoint, input.type, plan);
  for (const auto& [from, to, shape] : {std::tuple("self_attention.", "sa.", sizes->sa),
                                        std::tuple("cross_attention.", "ca.", sizes->ca),
                                        std::tuple("layer_self_attention.", "lsa.", sizes->lsa)}) {
    LayerList list;
    llama_layer({.shape = shape}, list);
    reader.add_layer(from, to, list, RopeStyle::halves);
  }
  reader.add("Ekv2E.weight", "ekv2e.weight", {target.layer.dim, sizes->lsa.dim}, 0);
  reader.add("Ekv2E.bias", "ekv2e.bias", {target.layer.dim}, 0);
  reader.refuse_others();
  if (reader.error()) return *reader.error();
  return {};
}

// Plans the bundle of a Mixture-of-Attentions checkpoint. Sizes come from the tensors' shapes. SA
// and CA use the target's head size; LSA has as many query heads as the target unless config.json
// says otherwise.
//
// Source    the layout of the published checkpoint huawei-noah/MOASpec-Llama-3-8B-Instruct
// Errors    bad_file, unsupported; mismatch: the checkpoint was trained for another target
Result<ModelPlan> plan_moa_bundle(const BundleSource& source) {
  return plan_checkpoint(source, add_moa);
}

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
                              .takes_target = check_plain,
                              .is_from_target = [](std::string_view tensor) {
                                return is_vocabulary(tensor) || tensor.starts_with("tli.");
                              }};

}  // namespace edgedraft
