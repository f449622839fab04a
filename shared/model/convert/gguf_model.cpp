#include "shared/model/convert/gguf_model.h"

#include <string>
#include <utility>

namespace edgedraft {

Result<ModelPlan> plan_gguf_model(const std::filesystem::path& path, std::optional<DType> type,
                                  bool (*is_kept)(std::string_view tensor)) {
  auto file = GgufFile::open(path);
  if (!file) return file.error();
  if (const auto architecture = file->architecture(); !architecture) return architecture.error();

  ModelPlan plan;
  for (const auto& [key, value] : file->metadata()) plan.metadata.set(std::string(key), value);
  if (type) set_file_type(plan.metadata, *type);
  for (const GgufTensor& tensor : file->tensors()) {
    PlannedTensor planned = copy_of(tensor, std::string(tensor.name));
    // A vector keeps its type; norms are f32 already.
    if (type && tensor.dims.size() > 1 && !(is_kept != nullptr && is_kept(tensor.name))) {
      planned.info.type = stored_type(*type, tensor.dims);
    }
    plan.tensors.push_back(std::move(planned));
  }
  if (type && is_kept == nullptr) raise_head(plan);
  plan.files.push_back(std::move(*file));
  return plan;
}

}  // namespace edgedraft
