#include "shared/model/convert/hf_model.h"

#include <utility>

#include "shared/model/convert/hf_config.h"
#include "shared/model/convert/hf_tokenizer.h"
#include "shared/model/families/checkpoint_reader.h"

namespace edgedraft {
namespace {

void add_config(const std::filesystem::path& directory, const HfConfig& config,
                GgufMetadata& metadata) {
  metadata = config.metadata;
  metadata.set_string("general.architecture", config.family->architecture);
  const auto name = std::filesystem::weakly_canonical(directory).filename().string();
  metadata.set_string("general.name", name);
}

void add_vectors(const HfConfig& config, ModelPlan& plan) {
  for (const auto& [name, values] : config.vectors) {
    const ByteView bytes = std::as_bytes(std::span(values));
    plan.made.emplace_back(bytes.begin(), bytes.end());
    plan.tensors.push_back({.info = {.name = name, .type = DType::f32, .dims = {values.size()}},
                            .source_type = DType::f32,
                            .source = plan.made.back()});
  }
}

bool leave_out_images(CheckpointReader& reader) {
  bool any = false;
  for (const char* part : {"visual.", "vision_tower.", "multi_modal_projector.", "embed_vision.",
                           "audio_tower.", "embed_audio."}) {
    any |= reader.leave_out_all(part);
    any |= reader.leave_out_all("model." + std::string(part));
  }
  return any;
}

}  // namespace

Result<ModelPlan> plan_hf_model(const std::filesystem::path& directory, DType type,
                                const std::optional<std::string>& pre) {
  auto checkpoint = SafetensorsModel::open(directory);
  const auto config = read_hf_config(directory, checkpoint ? &*checkpoint : nullptr);
  if (!config) return config.error();
  if (!checkpoint) return checkpoint.error();

  ModelPlan plan;
  add_config(directory, *config, plan.metadata);
  set_file_type(plan.metadata, type);

  const Family& family = *config->family;
  const DecoderConfig& decoder = config->decoder;
  const std::vector<std::uint64_t> table = {decoder.vocabulary_count, decoder.layer.dim};
  CheckpointReader reader(*checkpoint, type, plan);
  const std::string& root = reader.root();
  add_vectors(*config, plan);
  reader.add(root + "embed_tokens.weight", "token_embd.weight", table, 0);
  for (std::uint32_t i = 0; i < decoder.layer_count && !reader.error(); ++i) {
    const std::string index = std::to_string(i);
    LayerList list;
    family.tensors(decoder.plan(i), list);
    reader.add_layer(root + "layers." + index + ".", "blk." + index + ".", list, family.rope_style);
  }
  reader.add(root + std::string(family.hf_output_norm), std::string(family.output_norm),
             {decoder.layer.dim}, 0);
  const std::string part = "language_model.lm_head.weight";
  const std::string head = checkpoint->find(part) != nullptr ? part : "lm_head.weight";
  // A separately stored head is used, whatever config.json says.
  if (config->tied_embeddings) {
    reader.add_if_there(head, "output.weight", table, 0);
  } else {
    reader.add(head, "output.weight", table, 0);
  }
  if (family.hf_tensors != nullptr) family.hf_tensors(reader, decoder);
  const bool had_images = config->has_images && leave_out_images(reader);
  reader.refuse_others();
  if (reader.error()) return *reader.error();
  if (family.hf_norms_plus_one) {
    const std::string_view plain = family.hf_plain_norm;
    for (PlannedTensor& tensor : plan.tensors) {
      const std::string& name = tensor.info.name;
      if (!plain.empty() && name.ends_with(plain)) continue;
      tensor.layout.adds_one = name.ends_with("norm.weight");
    }
  }
  // After the tensors: the embedding confirms the size to which the tokenizer is padded.
  auto notice = add_hf_tokenizer(directory, *config, pre, plan.metadata);
  if (!notice) return notice.error();
  plan.notice = *std::move(notice);
  if (had_images) {
    if (!plan.notice.empty()) plan.notice += "\n";
    plan.notice += "the parts that see images are left out";
  }
  raise_head(plan);
  plan.checkpoints.push_back(std::move(*checkpoint));
  return plan;
}

}  // namespace edgedraft
