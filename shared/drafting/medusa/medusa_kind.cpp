#include "shared/drafting/medusa/medusa_kind.h"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/drafter_fit.h"
#include "shared/drafting/medusa/medusa_drafter.h"
#include "shared/drafting/network_kind.h"
#include "shared/drafting/state_tap.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/families/checkpoint_reader.h"
#include "shared/model/model_plan.h"
#include "shared/model/safetensors.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {
namespace {

using nlohmann::json;

constexpr const char* kPrefixes[] = {"", "medusa_head."};
constexpr const char* kChoices = "medusa_choices";

std::string block_name(const std::string& prefix, std::uint32_t head) {
  return prefix + std::to_string(head) + ".0.linear.weight";
}

// Prefix of the tensor names; nullopt if there are no heads.
std::optional<std::string> prefix_of(const SafetensorsModel& checkpoint) {
  for (const char* prefix : kPrefixes) {
    if (checkpoint.find(block_name(prefix, 0)) != nullptr) return prefix;
  }
  return {};
}

Result<std::uint32_t> count_heads(const SafetensorsModel& checkpoint, const std::string& prefix) {
  std::uint32_t count = 0;
  while (checkpoint.find(block_name(prefix, count)) != nullptr) ++count;
  if (count > kTreeDepthMax) {
    return Error{Errc::unsupported, "the drafter has " + std::to_string(count) +
                                        " heads; at most " + std::to_string(kTreeDepthMax) +
                                        " are supported"};
  }
  return count;
}

Result<std::vector<MedusaChoice>> tree_of(const json& config, std::uint32_t head_count) {
  const auto wrong = [] {
    return Error{Errc::bad_file, std::string(kChoices) + " is not a list of lists of ranks"};
  };
  const auto found = config.find(kChoices);
  if (found == config.end() || found->is_null()) return std::vector<MedusaChoice>();
  constexpr std::uint64_t kRankMax = std::numeric_limits<std::uint32_t>::max();
  if (!found->is_array()) return wrong();
  std::vector<std::vector<std::uint32_t>> paths;
  for (const json& path : *found) {
    if (!path.is_array()) return wrong();
    std::vector<std::uint32_t>& ranks = paths.emplace_back();
    for (const json& rank : path) {
      if (!rank.is_number_unsigned() || rank.get<std::uint64_t>() > kRankMax) return wrong();
      ranks.push_back(rank.get<std::uint32_t>());
    }
  }
  return tree_of_paths(std::move(paths), head_count);
}

void set_tree(std::span<const MedusaChoice> tree, GgufMetadata& metadata) {
  if (tree.empty()) return;
  std::vector<std::int32_t> parents;
  std::vector<std::int32_t> ranks;
  for (const MedusaChoice& node : tree) {
    parents.push_back(static_cast<std::int32_t>(node.parent));
    ranks.push_back(static_cast<std::int32_t>(node.rank));
  }
  metadata.set_i32s(std::string(kMedusaTreeParents), parents);
  metadata.set_i32s(std::string(kMedusaTreeRanks), ranks);
}

Result<void> add_medusa(const CheckpointInput& input, ModelPlan& plan) {
  const DecoderConfig& target = input.target;
  const auto made_for = check_made_for(
      input.config, {{"hidden_size", target.layer.dim}, {"vocab_size", target.vocabulary_count}});
  if (!made_for) return made_for.error();
  if (auto row = check_row(std::span(&target.layer.dim, 1)); !row) return row.error();
  const std::string prefix = prefix_of(input.checkpoint).value_or("");
  const auto head_count = count_heads(input.checkpoint, prefix);
  if (!head_count) return head_count.error();
  const auto tree = tree_of(input.config, *head_count);
  if (!tree) return tree.error();

  plan.metadata.set_string("general.architecture", kMedusaArchitecture);
  plan.metadata.set_u32(std::string(kBundleVocabularyCountKey), target.vocabulary_count);
  plan.metadata.set_u32(std::string(kMedusaDim), target.layer.dim);
  plan.metadata.set_u32(std::string(kMedusaHeadCount), *head_count);
  set_tree(*tree, plan.metadata);
  if (auto copied = copy_identity(input.file, plan.metadata); !copied) return copied.error();

  const bool is_shared = input.checkpoint.find(prefix + "0.1.weight") == nullptr;
  if (is_shared) {
    if (auto added = copy_head(input.file, plan); !added) return added.error();
  }
  const std::uint64_t dim = target.layer.dim;
  CheckpointReader reader(input.checkpoint, input.type, plan);
  for (std::uint32_t k = 0; k < *head_count; ++k) {
    const std::string from = prefix + std::to_string(k) + ".";
    const std::string to = "head." + std::to_string(k) + ".";
    reader.add(block_name(prefix, k), to + "weight", {dim, dim}, 0);
    reader.add(from + "0.linear.bias", to + "bias", {dim}, 0);
    if (!is_shared) {
      reader.add(from + "1.weight", to + "output.weight", {target.vocabulary_count, dim}, 0);
    }
  }
  // With the longer names the file may be a whole model, including the target's tensors.
  if (prefix.empty()) reader.refuse_others();
  if (reader.error()) return *reader.error();
  return {};
}

// Whether a checkpoint has MEDUSA's tensors.
bool is_medusa_checkpoint(const SafetensorsModel& checkpoint) {
  return prefix_of(checkpoint).has_value();
}

// Plans the bundle of MEDUSA's heads: K.0.linear.weight and .bias for K = 0, 1, ..., with each
// head's own K.1.weight (version 1) or the target's head (version 2). All names may start with
// "medusa_head.", beside other tensors. config.json may hold a tree as `medusa_choices`, paths of
// ranks. The tensors determine the number of heads: published configurations state it wrongly.
//
// Source    the layout of the published heads, such as FasterDecoding/medusa-vicuna-7b-v1.3
// Errors    bad_file, unsupported; mismatch: the heads were trained for another target
Result<ModelPlan> plan_medusa_bundle(const BundleSource& source) {
  return plan_checkpoint(source, add_medusa);
}

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
