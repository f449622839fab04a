#include "shared/drafting/eagle/eagle_kind.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "shared/base/error.h"
#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/drafter_fit.h"
#include "shared/drafting/feature_network.h"
#include "shared/drafting/network_kind.h"
#include "shared/model/families/checkpoint_reader.h"
#include "shared/model/json_file.h"
#include "shared/model/model_plan.h"
#include "shared/model/safetensors.h"

namespace edgedraft {
namespace {

using nlohmann::json;

constexpr const char* kLayer = "layers.0.";

// Published checkpoints state the number of heads; otherwise heads have the target's size.
Result<std::uint32_t> head_dim_of(const json& config, const SafetensorsModel& checkpoint,
                                  const DecoderConfig& target) {
  const auto head_dim = json_u32(config, "head_dim");
  if (!head_dim) return head_dim.error();
  if (*head_dim) return **head_dim;
  const auto heads = json_u32(config, "num_attention_heads");
  if (!heads) return heads.error();
  if (!*heads) return target.layer.heads.head_dim;
  const auto query_cols = rows_of(checkpoint, std::string(kLayer) + "self_attn.q_proj.weight");
  if (!query_cols) return query_cols.error();
  if (**heads == 0 || *query_cols % **heads != 0) {
    return Error{Errc::mismatch, "the drafter's " + std::to_string(*query_cols) +
                                     " query columns are not a multiple of the " +
                                     std::to_string(**heads) + " heads in its config.json"};
  }
  return *query_cols / **heads;
}

Result<LayerShape> read_shape(const json& config, const SafetensorsModel& checkpoint,
                              const DecoderConfig& target) {
  const auto head_dim = head_dim_of(config, checkpoint, target);
  if (!head_dim) return head_dim.error();
  const auto epsilon = json_number(config, "rms_norm_eps");
  if (!epsilon) return epsilon.error();
  return infer_layer(
      checkpoint, {.prefix = kLayer,
                   .dim = target.layer.dim,
                   .head_dim = *head_dim,
                   .rms_epsilon = static_cast<float>(epsilon->value_or(target.layer.rms_epsilon))});
}

// Without `bias` in the configuration, the tensor decides: Llama 2 checkpoints have one without
// saying so, Llama 3 checkpoints do not.
Result<bool> wants_bias(const json& config, const SafetensorsModel& checkpoint) {
  const auto bias = json_bool(config, "bias");
  if (!bias) return bias.error();
  return bias->value_or(checkpoint.find("fc.bias") != nullptr);
}

Result<void> add_metadata(const CheckpointInput& input, const LayerShape& shape,
                          GgufMetadata& metadata) {
  metadata.set_string("general.architecture", kEagleArchitecture);
  const auto theta = json_number(input.config, "rope_theta");
  if (!theta) return theta.error();
  set_layer(metadata, kEagleLayerPrefix, shape,
            static_cast<float>(theta->value_or(input.target.rope.theta)), RopeStyle::halves);
  const auto variant = json_string(input.config, "variant");
  if (!variant) return variant.error();
  if (*variant) metadata.set_string(std::string(kEagleVariant), **variant);
  return copy_identity(input.file, metadata);
}

Result<void> add_eagle(const CheckpointInput& input, ModelPlan& plan) {
  const DecoderConfig& target = input.target;
  const auto made_for = check_made_for(
      input.config, {{"hidden_size", target.layer.dim}, {"vocab_size", target.vocabulary_count}});
  if (!made_for) return made_for.error();
  if (auto row = check_row(std::span(&target.layer.dim, 1)); !row) return row.error();
  const auto shape = read_shape(input.config, input.checkpoint, target);
  if (!shape) return shape.error();
  const auto with_bias = wants_bias(input.config, input.checkpoint);
  if (!with_bias) return with_bias.error();

  if (auto added = add_metadata(input, *shape, plan.metadata); !added) return added.error();
  // The drafter rotates whole heads, so it cannot use divisors of a target that rotates a part.
  if (target.rope.rotated_of(shape->heads.head_dim) == shape->heads.head_dim) {
    add_divisors(target.rope, "layer.", plan);
  }
  copy_vocabulary(input.file, plan);
  const std::uint64_t dim = target.layer.dim;
  CheckpointReader reader(input.checkpoint, input.type, plan);
  reader.leave_out("embed_tokens.weight", {target.vocabulary_count, dim});
  reader.add("fc.weight", "fc.weight", {dim, 2 * dim}, 0);
  if (reader.error()) return *reader.error();
  const PlannedTensor fc = std::move(plan.tensors.back());
  plan.tensors.pop_back();
  if (auto split = add_halves(fc, input.type, plan); !split) return split.error();
  if (*with_bias) reader.add("fc.bias", "fc.bias", {dim}, 0);
  reader.add_layer(kLayer, "layer.", drafter_layer(*shape), RopeStyle::halves);
  reader.refuse_others();
  if (reader.error()) return *reader.error();
  return {};
}

// Whether a checkpoint has EAGLE's tensors.
bool is_eagle_checkpoint(const SafetensorsModel& checkpoint) {
  return checkpoint.find("fc.weight") != nullptr &&
         checkpoint.find(std::string(kLayer) + "self_attn.q_proj.weight") != nullptr;
}

// Plans the bundle of an EAGLE or HASS checkpoint. Sizes come from the tensors' shapes. The head
// size comes from config.json's number of heads, or else from the target.
//
// Source    the layout of the published checkpoints, such as yuhuili/EAGLE-LLaMA3-Instruct-8B
// Errors    bad_file, unsupported; mismatch: the checkpoint was trained for another target
Result<ModelPlan> plan_eagle_bundle(const BundleSource& source) {
  return plan_checkpoint(source, add_eagle);
}

struct Eagle {
  using Model = EagleModel;

  static DrafterFacts facts(const Model& model) {
    const std::string& variant = model.config.variant;
    return feature_facts(features_of(model),
                         std::string(kEagleKind.name) + (variant.empty() ? "" : "-" + variant));
  }
  static std::unique_ptr<DrafterWeights> load(const Model& model, Backend& backend,
                                              std::uint32_t positions_max) {
    return load_feature_drafters(backend, features_of(model), positions_max);
  }
  static std::unique_ptr<Tap> make_tap(const Model& model, Backend& backend) {
    return make_feature_tap(backend, features_of(model));
  }

 private:
  static FeatureModel features_of(const Model& model) {
    return feature_model(model.config, model.tensors);
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
