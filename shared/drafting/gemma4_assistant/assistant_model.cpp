#include "shared/drafting/gemma4_assistant/assistant_model.h"

#include <algorithm>
#include <string>
#include <utility>

#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/drafter_fit.h"
#include "shared/model/families/layers_of_drafters.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

constexpr AssistantMemory::Names kWindowNames = {"edgedraft.target.window_layer",
                                                 "window.k_norm.weight"};
constexpr AssistantMemory::Names kFullNames = {"edgedraft.target.full_layer", "full.k_norm.weight"};

// The plan of the target's family, but for keys of its own: no block has any.
Result<DecoderConfig> read_blocks(const GgufFile& file) {
  Family own = kGemma4;
  own.architecture = kAssistantSource;
  std::map<std::string_view, GgufValue> keys = file.metadata();
  keys.erase(assistant_key(kAssistantSharedKeys));
  auto blocks = read_plan(GgufKeys(std::move(keys)), own);
  if (!blocks) return blocks.error();
  if (auto stored = own.rope_tensors(file, *blocks); !stored) return stored.error();
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
      return bad_file(assistant_key("attention.head_count_kv") +
                      ": blocks that attend to one layer of the target differ in their heads");
    }
  }
  return {};
}

Result<void> read_memory(const GgufFile& file, AssistantMemory& memory) {
  const AssistantMemory::Names& names = memory.names();
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

}  // namespace

const AssistantMemory::Names& AssistantMemory::names() const {
  return window != 0 ? kWindowNames : kFullNames;
}

std::string assistant_key(std::string_view name) {
  return std::string(kAssistantSource) + "." + std::string(name);
}

std::vector<std::uint32_t> AssistantModel::scale_groups() const {
  std::vector<std::uint32_t> groups;
  for (const AssistantMemory& memory : memories) {
    // The scale of keys and values varies between heads.
    groups.insert(groups.end(), memory.cols() / memory.heads.head_dim, memory.heads.head_dim);
  }
  groups.push_back(dim());
  return groups;
}

Result<AssistantModel> plan_assistant(DecoderConfig blocks, std::uint32_t target_dim) {
  AssistantModel model{.blocks = std::move(blocks), .target_dim = target_dim};
  model.blocks.architecture = kGemma4.architecture;
  if (model.blocks.layer_embedding_dim() > 0 || model.blocks.plan(0).experts.count > 0) {
    return Error{
        Errc::unsupported,
        "assistants whose blocks have experts or embeddings of their own are not supported"};
  }
  if (model.dim() % 2 != 0) {
    return Error{Errc::unsupported,
                 "the width is " + std::to_string(model.dim()) + "; it must be even"};
  }
  for (LayerPlan& plan : model.blocks.layers) plan.kv_back = 1;
  if (auto found = find_memories(model); !found) return found.error();
  return model;
}

Result<AssistantModel> read_assistant_blocks(const GgufFile& file) {
  auto blocks = read_blocks(file);
  if (!blocks) return blocks.error();
  const auto target_dim = read_count(file, assistant_key(kAssistantTargetDim), kWidthMax);
  if (!target_dim) return target_dim.error();
  auto model = plan_assistant(std::move(*blocks), *target_dim);
  if (!model) return model.error();
  TensorReader reader(file, "");
  reader.vector("output_norm.weight", model->dim(), model->output_norm);
  if (reader.error()) return *reader.error();
  for (std::uint32_t i = 0; i < model->blocks.layer_count; ++i) {
    auto layer = read_family_layer(file, "blk." + std::to_string(i) + ".", kGemma4.architecture,
                                   model->blocks.layers[i]);
    if (!layer) return layer.error();
    model->layers.push_back(std::move(*layer));
  }
  return model;
}

Result<AssistantModel> read_assistant(const GgufFile& file) {
  BundleConfig sizes;
  if (auto read = read_bundle_config(file, kAssistantArchitecture, sizes); !read) {
    return read.error();
  }
  auto model = read_assistant_blocks(file);
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

}  // namespace edgedraft
