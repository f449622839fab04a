#include "shared/drafting/mtp/mtp_model.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "shared/drafting/bundle_parts.h"
#include "shared/drafting/drafter_fit.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/families/family.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

constexpr std::string_view kNextn = "nextn.";
constexpr std::array kNextnNames = {
    "eh_proj.weight",          "enorm.weight",       "hnorm.weight", "shared_head_norm.weight",
    "shared_head_head.weight", "embed_tokens.weight"};

// A block in its model's file.
struct Block {
  const GgufFile& file;
  const DecoderConfig& config;
  std::string prefix;

  std::string full(std::string_view name) const { return prefix + std::string(name); }
  std::string nextn(std::string_view name) const { return prefix + "nextn." + std::string(name); }
  // The block's own tensor, else the model's.
  std::string own_or(std::string_view own, std::string_view models) const {
    std::string name = nextn(own);
    return file.find_tensor(name) != nullptr ? name : std::string(models);
  }
};

Result<void> check_sizes(const DecoderConfig& config) {
  if (config.other_layer_count == 0) {
    return bad_file("the keys of " + config.architecture + " name no block that drafts");
  }
  const std::uint32_t dim = config.layer.dim;
  if (dim % 2 != 0) {
    return Error{Errc::unsupported, "the width is " + std::to_string(dim) + "; it must be even"};
  }
  if (auto heads =
          check_heads(config.draft_layer.shape.heads, "the block that drafts", kDrafterHeadDimMax);
      !heads) {
    return heads.error();
  }
  return check_row(std::span(&dim, 1));
}

// An unknown tensor would be left out of the bundle's computation.
Result<void> refuse_unknown(const Block& block, const LayerList& list) {
  for (const GgufTensor& tensor : block.file.tensors()) {
    std::string_view name = tensor.name;
    if (!name.starts_with(block.prefix)) continue;
    name.remove_prefix(block.prefix.size());
    const bool is_known =
        name.starts_with(kNextn)
            ? std::ranges::find(kNextnNames, name.substr(kNextn.size())) != kNextnNames.end()
            : std::ranges::find(list.tensors(), name, &LayerTensor::name) != list.tensors().end();
    if (is_known) continue;
    return Error{Errc::unsupported, "the tensor " + std::string(tensor.name) +
                                        " does not belong to a block that drafts of " +
                                        block.config.architecture +
                                        "; ignoring it would make drafts bad"};
  }
  return {};
}

void add_copy(const Block& block, const std::string& from, std::string to, ModelPlan& plan) {
  plan.tensors.push_back(copy_of(*block.file.find_tensor(from), std::move(to)));
}

// The shapes of the block's tensors, of which the reader of a model only knows that they are there.
Result<void> check_tensors(const Block& block) {
  const std::uint32_t dim = block.config.layer.dim;
  TensorView view;
  TensorReader reader(block.file, block.prefix + "nextn.");
  reader.matrix("eh_proj.weight", dim, 2 * dim, view);
  for (const char* name : {"enorm.weight", "hnorm.weight"}) reader.vector(name, dim, view);
  reader.optional_vector("shared_head_norm.weight", dim, view);
  for (const char* name : {"shared_head_head.weight", "embed_tokens.weight"}) {
    if (block.file.find_tensor(block.nextn(name)) == nullptr) continue;
    reader.matrix(name, block.config.vocabulary_count, dim, view);
  }
  if (reader.error()) return *reader.error();
  const auto layer = read_family_layer(block.file, block.prefix, block.config.architecture,
                                       block.config.draft_layer);
  return layer ? Result<void>() : layer.error();
}

Result<void> add_tensors(const Block& block, const Family& family, ModelPlan& plan) {
  LayerList list;
  family.tensors(block.config.draft_layer, list);
  if (auto known = refuse_unknown(block, list); !known) return known.error();
  if (auto checked = check_tensors(block); !checked) return checked.error();
  const std::string embedding = block.own_or("embed_tokens.weight", "token_embd.weight");
  std::string head = block.own_or("shared_head_head.weight", "output.weight");
  if (block.file.find_tensor(head) == nullptr) head = "token_embd.weight";
  add_copy(block, embedding, "token_embd.weight", plan);
  if (head != embedding) add_copy(block, head, "output.weight", plan);
  const std::string norm = block.own_or("shared_head_norm.weight", family.output_norm);
  if (block.file.find_tensor(norm) == nullptr) return missing_tensor(norm);
  add_copy(block, norm, "output_norm.weight", plan);
  add_copy(block, block.nextn("enorm.weight"), "enorm.weight", plan);
  add_copy(block, block.nextn("hnorm.weight"), "hnorm.weight", plan);
  if (block.file.find_tensor("rope_freqs.weight") != nullptr) {
    add_copy(block, "rope_freqs.weight", "rope_freqs.weight", plan);
  }
  const GgufTensor& projection = *block.file.find_tensor(block.nextn("eh_proj.weight"));
  const PlannedTensor whole = copy_of(projection, std::string(projection.name));
  if (auto added = add_halves(whole, projection.type, plan); !added) return added.error();
  for (const GgufTensor& tensor : block.file.tensors()) {
    if (!tensor.name.starts_with(block.prefix)) continue;
    const std::string_view name = tensor.name.substr(block.prefix.size());
    if (!name.starts_with(kNextn)) {
      plan.tensors.push_back(copy_of(tensor, "layer." + std::string(name)));
    }
  }
  return {};
}

}  // namespace

Result<ModelPlan> plan_mtp_bundle(const GgufFile& target) {
  const auto config = read_decoder_config(target);
  if (!config) return config.error();
  if (auto sizes = check_sizes(*config); !sizes) return sizes.error();
  const auto family = find_family(config->architecture);
  if (!family) return family.error();
  ModelPlan plan;
  plan.metadata.set_string("general.architecture", kMtpArchitecture);
  plan.metadata.set_string(std::string(kMtpFamily), config->architecture);
  for (const auto& [name, value] : target.metadata()) {
    const bool is_kept = name.starts_with(config->architecture + ".") ||
                         name == "general.file_type" || name == "general.quantization_version";
    if (is_kept) plan.metadata.set(std::string(name), value);
  }
  if (auto copied = copy_identity(target, plan.metadata); !copied) return copied.error();
  const Block block{.file = target,
                    .config = *config,
                    .prefix = "blk." + std::to_string(config->layer_count) + "."};
  if (auto added = add_tensors(block, **family, plan); !added) return added.error();
  return plan;
}

Result<FeatureModel> read_mtp(const GgufFile& file) {
  const auto family = file.get_string(kMtpFamily);
  if (!family) return family.error();
  auto config = read_family_config(file, *family);
  if (!config) return config.error();
  if (auto sizes = check_sizes(*config); !sizes) return sizes.error();
  const std::uint32_t dim = config->layer.dim;
  FeatureModel model{.sizes = {.context_length = config->context_length,
                               .target_layer_count = config->layer_count},
                     .plan = config->draft_layer,
                     .rope = std::move(config->rope),
                     .has_first = true};
  if (auto read = read_bundle_vocabulary(file, dim, model.sizes); !read) return read.error();
  TensorReader reader(file, "");
  reader.matrix("token_embd.weight", model.sizes.vocabulary_count, dim, model.token_embd);
  if (file.find_tensor("output.weight") != nullptr || !model.sizes.draft_tokens.empty()) {
    reader.matrix("output.weight", model.sizes.head_rows(), dim, model.output.emplace());
  }
  reader.vector("output_norm.weight", dim, model.output_norm);
  reader.vector("enorm.weight", dim, model.embedding_norm);
  reader.vector("hnorm.weight", dim, model.feature_norm);
  reader.matrix("fc_embd.weight", dim, dim, model.fc_embedding);
  reader.matrix("fc_feature.weight", dim, dim, model.fc_feature);
  if (reader.error()) return *reader.error();
  auto layer = read_family_layer(file, "layer.", *family, model.plan);
  if (!layer) return layer.error();
  model.layer = std::move(*layer);
  return model;
}

}  // namespace edgedraft
