#include "shared/model/convert/gguf_model.h"

#include <string>
#include <utility>

#include "shared/model/bundle.h"

namespace edgedraft {
namespace {

// The target's own tensors in a Mixture-of-Attentions bundle.
bool belongs_to_target(std::string_view name) {
  return name == "token_embd.weight" || name == "output.weight" || name.starts_with("tli.");
}

}  // namespace

Result<ModelPlan> plan_gguf_model(const std::filesystem::path& path, std::optional<DType> type) {
  auto file = GgufFile::open(path);
  if (!file) return file.error();
  const auto architecture = file->architecture();
  if (!architecture) return architecture.error();
  const bool is_moa = *architecture == kMoaArchitecture;

  ModelPlan plan;
  for (const auto& [key, value] : file->metadata()) plan.metadata.set(std::string(key), value);
  if (type) set_file_type(plan.metadata, *type);
  for (const GgufTensor& tensor : file->tensors()) {
    PlannedTensor planned = copy_of(tensor, std::string(tensor.name));
    // A vector keeps its type; norms are f32 already.
    if (type && tensor.dims.size() > 1 && !(is_moa && belongs_to_target(tensor.name))) {
      planned.info.type = stored_type(*type, tensor.dims);
    }
    plan.tensors.push_back(std::move(planned));
  }
  if (type && !is_moa) raise_head(plan);
  plan.files.push_back(std::move(*file));
  return plan;
}

}  // namespace edgedraft
