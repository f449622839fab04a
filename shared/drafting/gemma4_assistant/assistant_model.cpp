#include "shared/drafting/gemma4_assistant/assistant_model.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/drafter_fit.h"
#include "shared/model/families/layers_of_drafters.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

constexpr std::string_view kSharedKeys = "attention.shared_kv_layers";
constexpr std::string_view kTargetDim = "embedding_length_out";

// A memory's names in a bundle.
struct MemoryNames {
  const char* layer;
  const char* key_norm;
};
constexpr MemoryNames kWindowNames = {"edgedraft.target.window_layer", "window.k_norm.weight"};
constexpr MemoryNames kFullNames = {"edgedraft.target.full_layer", "full.k_norm.weight"};

const MemoryNames& names_of(const AssistantMemory& memory) {
  return memory.window != 0 ? kWindowNames : kFullNames;
}

std::string key(std::string_view name) {
  return std::string(kAssistantSource) + "." + std::string(name);
}

std::string block_prefix(std::uint32_t block) {
  return "blk." + std::to_string(block) + ".";
}

// The plan of the target's family, but for keys of its own: no block has any.
Result<DecoderConfig> read_blocks(const GgufFile& file) {
  Family own = kGemma4;
  own.architecture = kAssistantSource;
  std::map<std::string_view, GgufValue> keys = file.metadata();
  keys.erase(key(kSharedKeys));
  auto blocks = read_plan(GgufKeys(std::move(keys)), own);
  if (!blocks) return blocks.error();
  if (auto stored = own.rope_tensors(file, *blocks); !stored) return stored.error();
  blocks->architecture = kGemma4.architecture;
  if (blocks->layer_embedding_dim() > 0 || blocks->plan(0).experts.count > 0) {
    return Error{
        Errc::unsupported,
        "assistants whose blocks have experts or embeddings of their own are not supported"};
  }
  for (LayerPlan& plan : blocks->layers) plan.kv_back = 1;
  return blocks;
}

// Blocks with equal windows share a memory.
Result<void> find_memories(AssistantModel& model) {
  for (const LayerPlan& plan : model.blocks.layers) {
    const auto same = std::ranges::find(model.memories, plan.window, &AssistantMemory::window);
    model.memory_of_block.push_back(static_cast<std::uint32_t>(same - model.memories.begin()));
    if (same == model.memories.end()) {
      model.memories.push_back(
          {.heads = plan.shape.heads, .window = plan.window, .rope = plan.rope});
    } else if (same->heads != plan.shape.heads) {
      return bad_file(key("attention.head_count_kv") +
                      ": blocks that attend to one layer of the target differ in their heads");
    }
  }
  return {};
}

// What a bundle and an assistant's own file have in common.
Result<AssistantModel> read_common(const GgufFile& file) {
  AssistantModel model;
  auto blocks = read_blocks(file);
  if (!blocks) return blocks.error();
  model.blocks = std::move(*blocks);
  const auto target_dim = read_count(file, key(kTargetDim), kWidthMax);
  if (!target_dim) return target_dim.error();
  model.target_dim = *target_dim;
  if (model.dim() % 2 != 0) {
    return Error{Errc::unsupported,
                 "the width is " + std::to_string(model.dim()) + "; it must be even"};
  }
  if (auto found = find_memories(model); !found) return found.error();
  TensorReader reader(file, "");
  reader.vector("output_norm.weight", model.dim(), model.output_norm);
  if (reader.error()) return *reader.error();
  for (std::uint32_t i = 0; i < model.blocks.layer_count; ++i) {
    auto layer =
        read_family_layer(file, block_prefix(i), kGemma4.architecture, model.blocks.layers[i]);
    if (!layer) return layer.error();
    model.layers.push_back(std::move(*layer));
  }
  return model;
}

Result<void> read_memory(const GgufFile& file, AssistantMemory& memory) {
  const MemoryNames& names = names_of(memory);
  const auto layer = file.get_u32(names.layer);
  if (!layer) return layer.error();
  if (*layer >= kLayerCountMax) {
    return bad_file(std::string(names.layer) + " is " + std::to_string(*layer));
  }
  memory.layer = *layer;
  TensorReader reader(file, "");
  reader.optional_vector(names.key_norm, memory.heads.head_dim, memory.key_norm);
  return reader.error() ? Result<void>(*reader.error()) : Result<void>();
}

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

// Tensors that other programs use to compute fewer rows of the head.
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

void add_own(const GgufTensor& tensor, std::string name, std::optional<DType> type,
             ModelPlan& plan) {
  plan.tensors.push_back(copy_of(tensor, std::move(name)));
  if (type && tensor.dims.size() > 1) {
    plan.tensors.back().info.type = stored_type(*type, tensor.dims);
  }
}

Result<void> add_memories(const GgufFile& target, const DecoderConfig& config,
                          AssistantModel& model, ModelPlan& plan) {
  for (AssistantMemory& memory : model.memories) {
    const auto layer = find_layer(config, memory);
    if (!layer) return layer.error();
    plan.metadata.set_u32(names_of(memory).layer, memory.layer);
    const std::string prefix = block_prefix(*layer);
    const GgufTensor* const norm = target.find_tensor(prefix + "attn_k_norm.weight");
    if (norm == nullptr || target.find_tensor(prefix + "attn_v.weight") != nullptr) continue;
    plan.tensors.push_back(copy_of(*norm, names_of(memory).key_norm));
  }
  return {};
}

void add_metadata(const GgufFile& file, const DecoderConfig& target, std::optional<DType> type,
                  GgufMetadata& metadata) {
  for (const auto& [name, value] : file.metadata()) {
    const bool is_kept = name.starts_with(key("")) || name == "general.file_type" ||
                         name == "general.quantization_version";
    if (is_kept && name != key(kSharedKeys)) metadata.set(std::string(name), value);
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

}  // namespace

std::vector<std::uint32_t> AssistantModel::scale_groups() const {
  std::vector<std::uint32_t> groups;
  for (const AssistantMemory& memory : memories) {
    // The scale of keys and values varies between heads.
    groups.insert(groups.end(), memory.cols() / memory.heads.head_dim, memory.heads.head_dim);
  }
  groups.push_back(dim());
  return groups;
}

Result<AssistantModel> read_assistant(const GgufFile& file) {
  BundleConfig sizes;
  if (auto read = read_bundle_config(file, kAssistantArchitecture, sizes); !read) {
    return read.error();
  }
  auto model = read_common(file);
  if (!model) return model.error();
  model->sizes = std::move(sizes);
  if (auto read = read_bundle_vocabulary(file, model->target_dim, model->sizes); !read) {
    return read.error();
  }
  const std::uint32_t dim = model->dim();
  TensorReader reader(file, "");
  reader.matrix("token_embd.weight", model->sizes.vocabulary_count, model->target_dim,
                model->token_embd);
  reader.matrix("output.weight", model->sizes.head_rows(), dim, model->output);
  reader.matrix("fc_embd.weight", dim, model->target_dim, model->fc_embedding);
  reader.matrix("fc_feature.weight", dim, model->target_dim, model->fc_feature);
  reader.matrix("fc_next.weight", model->target_dim, dim, model->fc_next);
  if (reader.error()) return *reader.error();
  for (AssistantMemory& memory : model->memories) {
    if (auto read = read_memory(file, memory); !read) return read.error();
  }
  // Check now: the layers in the file bound the number of groups.
  if (auto row = check_row(model->scale_groups()); !row) return row.error();
  return model;
}

bool is_assistant_file(const std::filesystem::path& drafter) {
  if (!std::filesystem::is_regular_file(drafter)) return false;
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
  const auto target = read_decoder_config(source.target);
  if (!target) return target.error();
  if (auto taken = check_assistant_target(*target); !taken) return taken.error();
  auto file = GgufFile::open(source.drafter);
  if (!file) return file.error();
  auto model = read_common(*file);
  if (!model) return in_file(source.drafter, model.error());
  if (model->target_dim != target->layer.dim) {
    return Error{Errc::mismatch, "the assistant was made for a target of width " +
                                     std::to_string(model->target_dim) + "; this one's is " +
                                     std::to_string(target->layer.dim)};
  }
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

}  // namespace edgedraft
