#include "shared/drafting/gemma4_assistant/assistant_source.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/drafter_fit.h"
#include "shared/drafting/gemma4_assistant/assistant_model.h"
#include "shared/model/convert/hf_config.h"
#include "shared/model/families/checkpoint_reader.h"
#include "shared/model/families/layers_of_drafters.h"
#include "shared/model/json_file.h"
#include "shared/model/safetensors.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

using nlohmann::json;

constexpr const char* kPreProjection = "pre_projection.weight";
constexpr const char* kPostProjection = "post_projection.weight";

std::string block_prefix(std::uint32_t block) {
  return "blk." + std::to_string(block) + ".";
}

Result<void> check_width(const AssistantModel& model, const DecoderConfig& target) {
  if (model.target_dim == target.layer.dim) return {};
  return Error{Errc::mismatch, "the assistant was made for a target of width " +
                                   std::to_string(model.target_dim) + "; this one's is " +
                                   std::to_string(target.layer.dim)};
}

std::string described(std::uint32_t kv_heads, std::uint32_t head_dim, std::uint32_t window) {
  return std::to_string(kv_heads) + " key heads of size " + std::to_string(head_dim) +
         (window == 0 ? "" : " within " + std::to_string(window) + " positions");
}

// Finds the layer of the target whose keys the target's last layer of this window reads, and sets
// it. Returns its number among all layers.
Result<std::uint32_t> find_layer(const DecoderConfig& target, AssistantMemory& memory) {
  for (std::uint32_t i = target.layer_count; i-- > 0;) {
    const LayerPlan plan = target.plan(i);
    if ((plan.window != 0) != (memory.window != 0)) continue;
    const HeadShape& heads = plan.shape.heads;
    if (heads.kv_heads != memory.heads.kv_heads || heads.head_dim != memory.heads.head_dim ||
        plan.window != memory.window) {
      return Error{Errc::mismatch,
                   "the assistant attends to " +
                       described(memory.heads.kv_heads, memory.heads.head_dim, memory.window) +
                       "; the target has " +
                       described(heads.kv_heads, heads.head_dim, plan.window) +
                       "; use the assistant of this size of the model"};
    }
    const std::uint32_t source = i - plan.kv_back;
    memory.layer = 0;
    for (std::uint32_t j = 0; j < source; ++j) {
      if (target.plan(j).kv_back == 0) ++memory.layer;
    }
    return source;
  }
  return Error{Errc::mismatch, "the target has no layer that the assistant's blocks attend to"};
}

Result<void> add_memories(const GgufFile& target, const DecoderConfig& config,
                          AssistantModel& model, ModelPlan& plan) {
  for (AssistantMemory& memory : model.memories) {
    const auto layer = find_layer(config, memory);
    if (!layer) return layer.error();
    plan.metadata.set_u32(memory.names().layer, memory.layer);
    const std::string prefix = block_prefix(*layer);
    const GgufTensor* const norm = target.find_tensor(prefix + "attn_k_norm.weight");
    if (norm == nullptr || target.find_tensor(prefix + "attn_v.weight") != nullptr) continue;
    plan.tensors.push_back(copy_of(*norm, memory.names().key_norm));
  }
  return {};
}

// --- a file of llama.cpp ---

// The model's file holds the matrices under these names.
struct OwnTensors {
  const GgufTensor* head;
  const GgufTensor* pre_projection;
  const GgufTensor* post_projection;
};

Result<OwnTensors> check_own_tensors(const GgufFile& file, const AssistantModel& model,
                                     const DecoderConfig& target) {
  constexpr const char* kNames[] = {"token_embd.weight", "nextn.pre_projection.weight",
                                    "nextn.post_projection.weight"};
  TensorView view;
  TensorReader reader(file, "");
  reader.matrix(kNames[0], target.vocabulary_count, model.dim(), view);
  reader.matrix(kNames[1], model.dim(), 2 * model.target_dim, view);
  reader.matrix(kNames[2], model.target_dim, model.dim(), view);
  if (reader.error()) return *reader.error();
  return OwnTensors{file.find_tensor(kNames[0]), file.find_tensor(kNames[1]),
                    file.find_tensor(kNames[2])};
}

// Tensors with which other programs find the head's likely rows, and compute only those. All rows
// give the same logits for them.
bool is_head_shortcut(std::string_view name) {
  return name.starts_with("masked_embd_");
}

// An unknown tensor would be left out of the computation.
Result<void> refuse_unknown(const GgufFile& file, const AssistantModel& model) {
  constexpr std::array<std::string_view, 5> kKnown = {
      "token_embd.weight", "output_norm.weight", "rope_freqs.weight", "nextn.pre_projection.weight",
      "nextn.post_projection.weight"};
  const Family& family = kGemma4;
  const auto is_of_block = [&](std::string_view name) {
    for (std::uint32_t i = 0; i < model.blocks.layer_count; ++i) {
      const std::string prefix = block_prefix(i);
      if (!name.starts_with(prefix)) continue;
      LayerList list;
      family.tensors(model.blocks.layers[i], list);
      return std::ranges::any_of(list.tensors(), [&](const LayerTensor& known) {
        return known.kind != LayerTensor::Kind::unused && known.name == name.substr(prefix.size());
      });
    }
    return false;
  };
  for (const GgufTensor& tensor : file.tensors()) {
    if (std::ranges::find(kKnown, tensor.name) != kKnown.end()) continue;
    if (is_head_shortcut(tensor.name) || is_of_block(tensor.name)) continue;
    return Error{Errc::unsupported, "the tensor " + std::string(tensor.name) +
                                        " does not belong to an assistant; ignoring it would make "
                                        "drafts bad"};
  }
  return {};
}

void add_own(const GgufTensor& tensor, std::string name, std::optional<DType> type,
             ModelPlan& plan) {
  plan.tensors.push_back(copy_of(tensor, std::move(name)));
  if (type && tensor.dims.size() > 1) {
    plan.tensors.back().info.type = stored_type(*type, tensor.dims);
  }
}

void add_metadata(const GgufFile& file, const DecoderConfig& target, std::optional<DType> type,
                  GgufMetadata& metadata) {
  for (const auto& [name, value] : file.metadata()) {
    const bool is_kept = name.starts_with(assistant_key("")) || name == "general.file_type" ||
                         name == "general.quantization_version";
    if (is_kept && name != assistant_key(kAssistantSharedKeys))
      metadata.set(std::string(name), value);
  }
  metadata.set_string("general.architecture", kAssistantArchitecture);
  metadata.set_u32(std::string(kBundleContextLengthKey), target.context_length);
  metadata.set_u32(std::string(kBundleTargetLayerCountKey), target.layer_count);
  if (type) set_file_type(metadata, *type);
}

Result<void> add_tensors(const GgufFile& file, const OwnTensors& own, const AssistantModel& model,
                         std::optional<DType> type, ModelPlan& plan) {
  add_own(*own.head, "output.weight", type, plan);
  const GgufTensor& projection = *own.pre_projection;
  const PlannedTensor whole = copy_of(projection, std::string(projection.name));
  if (auto added = add_halves(whole, type.value_or(projection.type), plan); !added) {
    return added.error();
  }
  add_own(*own.post_projection, "fc_next.weight", type, plan);
  for (const GgufTensor& tensor : file.tensors()) {
    const bool is_kept = tensor.name.starts_with("blk.") || tensor.name == "output_norm.weight" ||
                         tensor.name == "rope_freqs.weight";
    if (is_kept) add_own(tensor, std::string(tensor.name), type, plan);
  }
  return check_row(model.scale_groups());
}

Result<ModelPlan> plan_assistant_file(const BundleSource& source) {
  const auto target = read_decoder_config(source.target);
  if (!target) return target.error();
  if (auto taken = check_assistant_target(*target); !taken) return taken.error();
  auto file = GgufFile::open(source.drafter);
  if (!file) return file.error();
  auto model = read_assistant_blocks(*file);
  if (!model) return in_file(source.drafter, model.error());
  if (auto fits = check_width(*model, *target); !fits) return fits.error();
  const auto own = check_own_tensors(*file, *model, *target);
  if (!own) return in_file(source.drafter, own.error());
  if (auto known = refuse_unknown(*file, *model); !known) {
    return in_file(source.drafter, known.error());
  }
  ModelPlan plan;
  add_metadata(*file, *target, source.type, plan.metadata);
  if (auto copied = copy_identity(source.target, plan.metadata); !copied) return copied.error();
  plan.tensors.push_back(
      copy_of(*source.target.find_tensor("token_embd.weight"), "token_embd.weight"));
  if (auto added = add_memories(source.target, *target, *model, plan); !added) {
    return added.error();
  }
  if (auto added = add_tensors(*file, *own, *model, source.type, plan); !added) {
    return added.error();
  }
  plan.files.push_back(std::move(*file));
  return plan;
}

// --- a folder ---

// The blocks as a model of the target's family. All of them share the target's keys.
json blocks_config(const json& config) {
  json blocks = config;
  const auto text = config.find("text_config");
  if (text != config.end() && text->is_object()) blocks.update(*text);
  blocks.erase("text_config");
  blocks.erase("num_kv_shared_layers");
  blocks["architectures"] = {"Gemma4ForCausalLM"};
  return blocks;
}

Result<AssistantModel> read_folder(const CheckpointInput& input, ModelPlan& plan) {
  const json config = blocks_config(input.config);
  const auto made_for = check_made_for(config, {{"vocab_size", input.target.vocabulary_count}});
  if (!made_for) return made_for.error();
  const auto target_dim = json_u32(input.config, "backbone_hidden_size");
  if (!target_dim) return target_dim.error();
  if (!*target_dim) return bad_file("config.json: \"backbone_hidden_size\" is missing");
  auto hf = parse_hf_config(config, &input.checkpoint);
  if (!hf) return Error{hf.error().code, "config.json: " + hf.error().message};
  const std::string from = std::string(kGemma4.architecture) + ".";
  const GgufKeys keys = hf->metadata.keys();
  for (const auto& [name, value] : keys.metadata()) {
    if (!name.starts_with(from)) continue;
    plan.metadata.set(assistant_key(name.substr(from.size())), value);
  }
  plan.metadata.set_u32(assistant_key(kAssistantTargetDim), **target_dim);
  for (const auto& [name, values] : hf->vectors) {
    add_divisors({.frequency_divisors = values}, "", plan);
  }
  auto model = plan_assistant(std::move(hf->decoder), **target_dim);
  if (!model) return model.error();
  if (auto fits = check_width(*model, input.target); !fits) return fits.error();
  return model;
}

Result<void> add_folder(const CheckpointInput& input, ModelPlan& plan) {
  if (auto taken = check_assistant_target(input.target); !taken) return taken.error();
  auto model = read_folder(input, plan);
  if (!model) return model.error();
  plan.metadata.set_string("general.architecture", kAssistantArchitecture);
  if (auto copied = copy_identity(input.file, plan.metadata); !copied) return copied.error();
  plan.tensors.push_back(
      copy_of(*input.file.find_tensor("token_embd.weight"), "token_embd.weight"));
  if (auto added = add_memories(input.file, input.target, *model, plan); !added) {
    return added.error();
  }
  const std::uint64_t dim = model->dim();
  const std::uint64_t target_dim = model->target_dim;
  const std::uint64_t vocabulary = input.target.vocabulary_count;
  CheckpointReader reader(input.checkpoint, input.type, plan);
  const std::string embedding = reader.root() + "embed_tokens.weight";
  const bool is_tied = input.checkpoint.find("lm_head.weight") == nullptr;
  reader.add(is_tied ? embedding : "lm_head.weight", "output.weight", {vocabulary, dim}, 0);
  if (!is_tied) reader.leave_out(embedding, {vocabulary, dim});
  reader.add(kPostProjection, "fc_next.weight", {target_dim, dim}, 0);
  reader.add(reader.root() + "norm.weight", "output_norm.weight", {dim}, 0);
  for (std::uint32_t i = 0; i < model->blocks.layer_count; ++i) {
    LayerList list;
    kGemma4.tensors(model->blocks.layers[i], list);
    reader.add_layer(reader.root() + "layers." + std::to_string(i) + ".", block_prefix(i), list,
                     RopeStyle::halves);
  }
  reader.leave_out_all("masked_embedding.");  // see is_head_shortcut
  reader.add(kPreProjection, kPreProjection, {dim, 2 * target_dim}, 0);
  reader.refuse_others();
  if (reader.error()) return *reader.error();
  const PlannedTensor whole = std::move(plan.tensors.back());
  plan.tensors.pop_back();
  if (auto added = add_halves(whole, input.type, plan); !added) return added.error();
  return check_row(model->scale_groups());
}

}  // namespace

bool is_assistant_source(const std::filesystem::path& drafter) {
  if (std::filesystem::is_directory(drafter)) {
    const auto checkpoint = SafetensorsModel::open(drafter);
    return checkpoint && checkpoint->find(kPreProjection) != nullptr &&
           checkpoint->find(kPostProjection) != nullptr;
  }
  const auto file = GgufFile::open(drafter);
  if (!file) return false;
  const auto architecture = file->architecture();
  return architecture && *architecture == kAssistantSource;
}

Result<void> check_assistant_target(const DecoderConfig& target) {
  if (target.architecture == kGemma4.architecture) return {};
  return Error{Errc::unsupported, "an assistant drafts for a " + std::string(kGemma4.architecture) +
                                      " model, and the target is a " + target.architecture +
                                      "; `edgedraft models` lists the kinds that fit"};
}

Result<ModelPlan> plan_assistant_bundle(const BundleSource& source) {
  if (std::filesystem::is_directory(source.drafter)) return plan_checkpoint(source, add_folder);
  return plan_assistant_file(source);
}

}  // namespace edgedraft
