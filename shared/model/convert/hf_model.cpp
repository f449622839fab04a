#include "shared/model/convert/hf_model.h"

#include <algorithm>
#include <utility>

#include "shared/model/convert/hf_tokenizer.h"

namespace edgedraft {
namespace {

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text;
  for (const std::uint64_t dim : shape) text += (text.empty() ? "" : " x ") + std::to_string(dim);
  return text.empty() ? "a scalar" : text;
}

void add_config(const std::filesystem::path& directory, const HfConfig& config,
                GgufMetadata& metadata) {
  metadata = config.metadata;
  metadata.set_string("general.architecture", config.family->architecture);
  const auto name = std::filesystem::weakly_canonical(directory).filename().string();
  metadata.set_string("general.name", name);
}

void add_divisors(const HfConfig& config, ModelPlan& plan) {
  if (config.stored_divisors.empty()) return;
  const ByteView bytes = std::as_bytes(std::span(config.stored_divisors));
  plan.made.emplace_back(bytes.begin(), bytes.end());
  plan.tensors.push_back({.info = {.name = "rope_freqs.weight",
                                   .type = DType::f32,
                                   .dims = {config.stored_divisors.size()}},
                          .source_type = DType::f32,
                          .source = plan.made.back()});
}

}  // namespace

void CheckpointReader::add(const std::string& from, std::string to,
                           std::vector<std::uint64_t> shape, std::uint32_t pair_heads) {
  if (error_) return;
  const SafetensorsTensor* tensor = checkpoint_.find(from);
  if (tensor == nullptr) {
    error_ = Error{Errc::bad_file, "the checkpoint lacks the tensor " + from};
    return;
  }
  const auto source_type = tensor->weight_type();
  if (!source_type) {
    error_ = Error{Errc::unsupported, "tensor " + from + " is stored as " + tensor->type +
                                          "; F32, F16 and BF16 are supported"};
    return;
  }
  if (tensor->shape != shape || std::find(shape.begin(), shape.end(), 0u) != shape.end()) {
    error_ = Error{Errc::bad_file, "tensor " + from + " is " + shape_text(tensor->shape) +
                                       "; the configuration requires " + shape_text(shape)};
    return;
  }
  taken_.push_back(from);
  const std::vector<std::uint64_t> dims(shape.rbegin(), shape.rend());
  plan_.tensors.push_back(
      {.info = {.name = std::move(to), .type = stored_type(type_, dims), .dims = dims},
       .source_type = *source_type,
       .source = tensor->bytes,
       .pair_heads = pair_heads});
}

void CheckpointReader::add_if_there(const std::string& from, std::string to,
                                    std::vector<std::uint64_t> shape, std::uint32_t pair_heads) {
  if (checkpoint_.find(from) != nullptr) add(from, std::move(to), std::move(shape), pair_heads);
}

void CheckpointReader::add_layer(const std::string& from, const std::string& to,
                                 const LayerList& list, RopeStyle style) {
  std::string_view added;
  for (const LayerTensor& tensor : list.tensors()) {
    if (tensor.name == added) continue;  // several parts
    added = tensor.name;
    const std::string source = from + std::string(tensor.hf);
    const std::string name = to + std::string(tensor.name);
    const std::uint32_t pair_heads = style == RopeStyle::pairs ? tensor.heads : 0;
    if (tensor.kind == LayerTensor::Kind::matrix) {
      add(source, name, {tensor.all_rows(), tensor.cols}, pair_heads);
    } else if (tensor.kind == LayerTensor::Kind::vector) {
      add(source, name, {tensor.cols}, 0);
    } else if (pair_heads == 0) {  // biases are not permuted; refuse_others() reports one
      add_if_there(source, name, {tensor.cols}, 0);
    }
  }
}

void CheckpointReader::leave_out(const std::string& from, const std::vector<std::uint64_t>& shape) {
  const SafetensorsTensor* tensor = checkpoint_.find(from);
  if (error_ || tensor == nullptr) return;
  if (tensor->shape != shape) {
    error_ = Error{Errc::mismatch, "tensor " + from + " is " + shape_text(tensor->shape) +
                                       "; the target's is " + shape_text(shape)};
    return;
  }
  taken_.push_back(from);
}

void CheckpointReader::refuse_others() {
  if (error_) return;
  std::sort(taken_.begin(), taken_.end());
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    // Old checkpoints store frequencies, which the configuration implies.
    if (name.ends_with("rotary_emb.inv_freq")) continue;
    if (std::binary_search(taken_.begin(), taken_.end(), name)) continue;
    error_ = Error{Errc::unsupported, "the checkpoint has the tensor " + name +
                                          ", which a model of this kind does not have"};
    return;
  }
}

Result<ModelPlan> plan_hf_model(const std::filesystem::path& directory, DType type,
                                const std::optional<std::string>& pre) {
  const auto config = read_hf_config(directory);
  if (!config) return config.error();
  auto checkpoint = SafetensorsModel::open(directory);
  if (!checkpoint) return checkpoint.error();

  ModelPlan plan;
  add_config(directory, *config, plan.metadata);
  set_file_type(plan.metadata, type);

  const DecoderConfig& decoder = config->decoder;
  const std::vector<std::uint64_t> table = {decoder.vocabulary_count, decoder.layer.dim};
  CheckpointReader reader(*checkpoint, type, plan);
  add_divisors(*config, plan);
  reader.add("model.embed_tokens.weight", "token_embd.weight", table, 0);
  for (std::uint32_t i = 0; i < decoder.layer_count && !reader.error(); ++i) {
    const std::string index = std::to_string(i);
    LayerList list;
    config->family->tensors(decoder.plan(i), list);
    reader.add_layer("model.layers." + index + ".", "blk." + index + ".", list,
                     config->family->rope_style);
  }
  reader.add("model.norm.weight", std::string(config->family->output_norm), {decoder.layer.dim}, 0);
  // A separately stored head is used, whatever config.json says.
  if (config->tied_embeddings) {
    reader.add_if_there("lm_head.weight", "output.weight", table, 0);
  } else {
    reader.add("lm_head.weight", "output.weight", table, 0);
  }
  reader.refuse_others();
  if (reader.error()) return *reader.error();
  if (config->family->hf_norms_plus_one) {
    for (PlannedTensor& tensor : plan.tensors) {
      if (tensor.info.name.ends_with("norm.weight")) tensor.added = 1.0f;
    }
  }
  // After the tensors: the embedding confirms the size to which the tokenizer is padded.
  auto notice = add_hf_tokenizer(directory, *config, pre, plan.metadata);
  if (!notice) return notice.error();
  plan.notice = *std::move(notice);
  raise_head(plan);
  plan.checkpoints.push_back(std::move(*checkpoint));
  return plan;
}

}  // namespace edgedraft
