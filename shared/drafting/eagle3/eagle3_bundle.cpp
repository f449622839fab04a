#include "shared/drafting/eagle3/eagle3_bundle.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/check.h"
#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/draft_tokens.h"
#include "shared/drafting/eagle3/eagle3_model.h"
#include "shared/model/convert/convert.h"
#include "shared/model/convert/hf_config.h"
#include "shared/model/draft_vocabulary.h"
#include "shared/model/families/checkpoint_reader.h"
#include "shared/model/families/layers_of_drafters.h"
#include "shared/model/json_file.h"
#include "shared/model/safetensors.h"

namespace edgedraft {
namespace {

using nlohmann::json;

constexpr std::string_view kGgufArchitecture = "eagle3";
constexpr const char* kLayerPrefixes[] = {"midlayer.", "layers.0."};
constexpr const char* kAuxLayers = "eagle_aux_hidden_state_layer_ids";
constexpr const char* kHead = "output.weight";
constexpr const char* kEmbedding = "token_embd.weight";

std::optional<std::string> layer_prefix_of(const SafetensorsModel& checkpoint) {
  if (checkpoint.find("fc.weight") == nullptr) return {};
  for (const char* prefix : kLayerPrefixes) {
    if (checkpoint.find(std::string(prefix) + "hidden_norm.weight") != nullptr) return prefix;
  }
  return {};
}

// Adds the target's embedding and head where the drafter has none of its own.
Result<void> complete_vocabulary(const GgufFile& target, const DecoderConfig& config,
                                 std::uint32_t dim, ModelPlan& plan) {
  const bool has_embedding = find_planned(plan, kEmbedding) != nullptr;
  const bool has_head = find_planned(plan, kHead) != nullptr;
  if (has_embedding && has_head) return {};
  if (config.layer.dim != dim) {
    return Error{Errc::mismatch, "the drafter has no " +
                                     std::string(has_embedding ? kHead : kEmbedding) +
                                     ", and its width is " + std::to_string(dim) +
                                     ", not the target's " + std::to_string(config.layer.dim)};
  }
  const GgufTensor* const embedding = target.find_tensor(kEmbedding);
  const GgufTensor* const head = target.find_tensor(kHead);
  EDGEDRAFT_CHECK(embedding != nullptr);  // read_decoder_config
  if (!has_embedding) plan.tensors.push_back(copy_of(*embedding, kEmbedding));
  // A tied head is the embedding, unless the drafter has another one.
  if (!has_head && (head != nullptr || has_embedding)) {
    plan.tensors.push_back(copy_of(head != nullptr ? *head : *embedding, kHead));
  }
  return {};
}

void set_config(const Eagle3Config& config, GgufMetadata& metadata) {
  metadata.set_string("general.architecture", kEagle3Architecture);
  const std::vector<std::int32_t> states(config.states.begin(), config.states.end());
  metadata.set_i32s(std::string(kEagle3States), states);
  metadata.set_u32(std::string(kEagle3TargetDim), config.target_dim);
  metadata.set_bool(std::string(kEagle3StartsNormed), config.starts_normed);
  metadata.set_bool(std::string(kEagle3NormsStates), config.norms_states);
}

// --- a file of llama.cpp ---

Result<Eagle3Config> read_gguf_config(const GgufFile& file, const DecoderConfig& target,
                                      GgufMetadata& metadata) {
  const std::string from = std::string(kGgufArchitecture) + ".";
  const std::string to = std::string(kLlama.architecture) + ".";
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with(from)) metadata.set(to + std::string(key.substr(from.size())), value);
  }
  const std::string own[] = {"target_layers", "target_hidden_size", "norm_before_residual",
                             "norm_before_fc"};
  for (const std::string& key : own) metadata.erase(to + key);
  const auto layers = file.get_i32s(from + own[0]);
  if (!layers) return layers.error();
  auto states = fused_states(*layers, target.layer_count, from + own[0]);
  if (!states) return states.error();
  const auto target_dim = file.get_u32_or(from + own[1], target.layer.dim);
  if (!target_dim) return target_dim.error();
  const auto starts_normed = file.get_bool_or(from + own[2], false);
  if (!starts_normed) return starts_normed.error();
  const auto norms_states = file.get_bool_or(from + own[3], false);
  if (!norms_states) return norms_states.error();
  const auto vocabulary = file.get_u32_or(from + "vocab_size", target.vocabulary_count);
  if (!vocabulary) return vocabulary.error();
  if (*target_dim != target.layer.dim || *vocabulary != target.vocabulary_count) {
    return Error{Errc::mismatch, "the drafter is made for a target of width " +
                                     std::to_string(*target_dim) + " with " +
                                     std::to_string(*vocabulary) + " tokens; this one has width " +
                                     std::to_string(target.layer.dim) + " and " +
                                     std::to_string(target.vocabulary_count) + " tokens"};
  }
  auto layer = read_family_config(file, metadata.keys(), kLlama.architecture);
  if (!layer) return layer.error();
  return Eagle3Config{.layer = std::move(*layer),
                      .states = std::move(*states),
                      .target_dim = *target_dim,
                      .starts_normed = *starts_normed,
                      .norms_states = *norms_states};
}

bool is_known(std::string_view name, const LayerList& layer) {
  constexpr std::string_view kPrefix = "blk.0.";
  for (const std::string_view known :
       {"fc.weight", "enc.output_norm.weight", "output_norm.weight", "rope_freqs.weight", kHead,
        kEmbedding, "blk.0.attn_norm_2.weight"}) {
    if (name == known) return true;
  }
  return name.starts_with(kPrefix) &&
         std::ranges::find(layer.tensors(), name.substr(kPrefix.size()), &LayerTensor::name) !=
             layer.tensors().end();
}

// Matrices of the drafter get `type`, if any.
Result<void> copy_tensors(const GgufFile& file, const Eagle3Config& config,
                          std::optional<DType> type, ModelPlan& plan) {
  const LayerList layer = eagle3_layer(config.layer.layer);
  for (const GgufTensor& tensor : file.tensors()) {
    if (!is_known(tensor.name, layer)) {
      return Error{Errc::unsupported, "the tensor " + std::string(tensor.name) +
                                          " does not belong to an EAGLE-3 drafter; ignoring it "
                                          "would make drafts bad"};
    }
    PlannedTensor planned = copy_of(tensor, std::string(tensor.name));
    if (type && tensor.dims.size() > 1) planned.info.type = stored_type(*type, tensor.dims);
    plan.tensors.push_back(std::move(planned));
  }
  return {};
}

// Shapes of embedding and head, of which read_eagle3_tensors() knows nothing.
Result<void> check_vocabulary(const ModelPlan& plan, std::uint32_t dim,
                              std::uint32_t vocabulary_count) {
  for (const PlannedTensor& tensor : plan.tensors) {
    const bool is_head = tensor.info.name == kHead;
    if (!is_head && tensor.info.name != kEmbedding) continue;
    const std::vector<std::uint64_t>& dims = tensor.info.dims;
    const bool is_reduced =
        is_head && plan.metadata.values().contains(std::string(kDraftVocabularyKey));
    if (dims.size() == 2 && dims[0] == dim && (is_reduced || dims[1] == vocabulary_count)) continue;
    return Error{Errc::mismatch, "the drafter's " + tensor.info.name +
                                     " does not have the width of the drafter and one row per "
                                     "token of the target"};
  }
  return {};
}

Result<ModelPlan> plan_gguf(const BundleSource& source) {
  auto file = GgufFile::open(source.drafter);
  if (!file) return file.error();
  const auto target = read_decoder_config(source.target);
  if (!target) return target.error();
  ModelPlan plan;
  const auto config = read_gguf_config(*file, *target, plan.metadata);
  if (!config) return in_file(source.drafter, config.error());
  if (auto checked = check_eagle3_sizes(*config); !checked) {
    return in_file(source.drafter, checked.error());
  }
  if (const auto model = read_eagle3_tensors(*file, *config); !model) {
    return in_file(source.drafter, model.error());
  }
  set_config(*config, plan.metadata);
  plan.metadata.set_u32(std::string(kBundleContextLengthKey), target->context_length);
  plan.metadata.set_u32(std::string(kBundleTargetLayerCountKey), target->layer_count);
  if (source.type) set_file_type(plan.metadata, *source.type);
  if (auto copied = copy_identity(source.target, plan.metadata); !copied) return copied.error();
  if (auto copied = copy_tensors(*file, *config, source.type, plan); !copied) {
    return in_file(source.drafter, copied.error());
  }
  const auto tokens = read_draft_table(*file, target->vocabulary_count);
  if (!tokens) return in_file(source.drafter, tokens.error());
  if (auto set = set_draft_tokens(*tokens, target->vocabulary_count, plan); !set) {
    return in_file(source.drafter, set.error());
  }
  const std::uint32_t dim = config->layer.layer.dim;
  if (auto checked = check_vocabulary(plan, dim, target->vocabulary_count); !checked) {
    return in_file(source.drafter, checked.error());
  }
  if (auto added = complete_vocabulary(source.target, *target, dim, plan); !added) {
    return in_file(source.drafter, added.error());
  }
  plan.files.push_back(std::move(*file));
  return plan;
}

// --- a folder ---

// The layers whose inputs are read.
Result<std::vector<std::uint32_t>> states_of(const json& config, std::uint32_t layer_count) {
  const auto list_in = [](const json& object) {
    const auto found = object.find(kAuxLayers);
    return found == object.end() || found->is_null() ? json() : *found;
  };
  json list = list_in(config);
  std::int32_t after = 0;
  const auto nested = config.find("eagle_config");
  if (list.is_null() && nested != config.end() && nested->is_object()) {
    list = list_in(*nested);
    after = 1;
  }
  std::vector<std::int32_t> layers;
  if (list.is_null()) {
    const auto count = static_cast<std::int32_t>(layer_count);
    layers = {2, count / 2, count - 3};
  } else if (!list.is_array() || list.size() > kFusedStatesMax) {
    return bad_file(std::string(kAuxLayers) + " is not a list of at most " +
                    std::to_string(kFusedStatesMax) + " layers");
  } else {
    for (const json& layer : list) {
      const auto value = json_u32(json{{kAuxLayers, layer}}, kAuxLayers);
      if (!value) return value.error();
      if (!*value || **value > layer_count) {
        return bad_file(std::string(kAuxLayers) + " lists a layer that the target does not have");
      }
      layers.push_back(static_cast<std::int32_t>(**value) + after);
    }
  }
  return fused_states(layers, layer_count, kAuxLayers);
}

// The layer's configuration as a Llama's of one layer. Speculators nest it.
json llama_config(const json& config, const DecoderConfig& target) {
  json merged = config;
  const auto nested = config.find("transformer_layer_config");
  if (nested != config.end() && nested->is_object()) merged.update(*nested);
  merged["architectures"] = {"LlamaForCausalLM"};
  merged.erase("text_config");
  merged.emplace("num_hidden_layers", 1u);
  merged.emplace("vocab_size", target.vocabulary_count);
  merged.emplace("max_position_embeddings", target.context_length);
  return merged;
}

Result<Eagle3Config> read_hf_settings(const CheckpointInput& input, ModelPlan& plan) {
  const json merged = llama_config(input.config, input.target);
  const auto made_for = check_made_for(merged, {{"target_hidden_size", input.target.layer.dim},
                                                {"vocab_size", input.target.vocabulary_count}});
  if (!made_for) return made_for.error();
  auto hf = parse_hf_config(merged, &input.checkpoint);
  if (!hf) return Error{hf.error().code, "config.json: " + hf.error().message};
  const GgufKeys keys = hf->metadata.keys();
  for (const auto& [key, value] : keys.metadata()) plan.metadata.set(std::string(key), value);
  for (const auto& [name, values] : hf->vectors) {
    add_divisors({.frequency_divisors = values}, "", plan);
  }
  auto states = states_of(input.config, input.target.layer_count);
  if (!states) return states.error();
  const auto starts_normed = json_bool(merged, "norm_before_residual");
  if (!starts_normed) return starts_normed.error();
  const auto norms_states = json_bool(merged, "norm_before_fc");
  if (!norms_states) return norms_states.error();
  return Eagle3Config{.layer = std::move(hf->decoder),
                      .states = std::move(*states),
                      .target_dim = input.target.layer.dim,
                      .starts_normed = starts_normed->value_or(false),
                      .norms_states = norms_states->value_or(false)};
}

Result<void> add_eagle3(const CheckpointInput& input, ModelPlan& plan) {
  const auto config = read_hf_settings(input, plan);
  if (!config) return config.error();
  if (auto checked = check_eagle3_sizes(*config); !checked) return checked.error();
  const std::uint32_t vocabulary_count = input.target.vocabulary_count;
  const auto tokens = read_draft_table(input.checkpoint, vocabulary_count);
  if (!tokens) return tokens.error();
  set_config(*config, plan.metadata);
  if (auto copied = copy_identity(input.file, plan.metadata); !copied) return copied.error();

  const std::uint64_t dim = config->layer.layer.dim;
  const std::string prefix = layer_prefix_of(input.checkpoint).value_or(kLayerPrefixes[0]);
  CheckpointReader reader(input.checkpoint, input.type, plan);
  reader.add("fc.weight", "fc.weight", {dim, config->cols()}, 0);
  if (config->norms_states) {
    reader.add("input_norm.weight", "enc.output_norm.weight", {config->cols()}, 0);
  }
  reader.add("norm.weight", "output_norm.weight", {dim}, 0);
  reader.add(prefix + "hidden_norm.weight", "blk.0.attn_norm_2.weight", {dim}, 0);
  reader.add_layer(prefix, "blk.0.", eagle3_layer(config->layer.layer), RopeStyle::pairs);
  reader.add_if_there("embed_tokens.weight", kEmbedding, {vocabulary_count, dim}, 0);
  const std::uint64_t head_rows = *tokens ? (*tokens)->size() : vocabulary_count;
  reader.add_if_there("lm_head.weight", kHead, {head_rows, dim}, 0);
  leave_out_draft_tokens(reader);
  reader.refuse_others();
  if (reader.error()) return *reader.error();
  if (auto set = set_draft_tokens(*tokens, vocabulary_count, plan); !set) return set.error();
  return complete_vocabulary(input.file, input.target, config->layer.layer.dim, plan);
}

}  // namespace

bool is_eagle3_source(const std::filesystem::path& drafter) {
  if (std::filesystem::is_directory(drafter)) {
    const auto checkpoint = SafetensorsModel::open(drafter);
    return checkpoint && layer_prefix_of(*checkpoint).has_value();
  }
  const auto file = GgufFile::open(drafter);
  if (!file) return false;
  const auto architecture = file->architecture();
  return architecture && *architecture == kGgufArchitecture;
}

Result<ModelPlan> plan_eagle3_bundle(const BundleSource& source) {
  if (std::filesystem::is_directory(source.drafter)) return plan_checkpoint(source, add_eagle3);
  return plan_gguf(source);
}

}  // namespace edgedraft
