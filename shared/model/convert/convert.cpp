#include "shared/model/convert/convert.h"

#include <system_error>
#include <utility>

#include "shared/model/convert/hf_model.h"

namespace edgedraft {

namespace {

// Plans a copy of a GGUF model with its matrices in `type`, or unchanged.
Result<ModelPlan> plan_gguf_model(const std::filesystem::path& path, std::optional<DType> type,
                                  KeptTensors is_kept) {
  auto file = GgufFile::open(path);
  if (!file) return file.error();
  if (const auto architecture = file->architecture(); !architecture) return architecture.error();

  ModelPlan plan;
  for (const auto& [key, value] : file->metadata()) plan.metadata.set(std::string(key), value);
  if (type) set_file_type(plan.metadata, *type);
  for (const GgufTensor& tensor : file->tensors()) {
    PlannedTensor planned = copy_of(tensor, std::string(tensor.name));
    // Vectors keep their type; norms are f32 already.
    if (type && tensor.dims.size() > 1 && !(is_kept != nullptr && is_kept(tensor.name))) {
      planned.info.type = stored_type(*type, tensor.dims);
    }
    plan.tensors.push_back(std::move(planned));
  }
  if (type && is_kept == nullptr) raise_head(plan);
  plan.files.push_back(std::move(*file));
  return plan;
}

}  // namespace

Result<ModelPlan> plan_model(const std::filesystem::path& input, std::optional<DType> type,
                             KeptTensors is_kept) {
  std::error_code unknown;  // opening it as a file reports the error
  if (std::filesystem::is_directory(input, unknown)) {
    return plan_hf_model(input, type.value_or(kTypeOfDirectories));
  }
  return plan_gguf_model(input, type, is_kept);
}

Result<void> convert_model(const ConvertOptions& options) {
  const auto plan = plan_model(options.input, options.type, options.is_kept);
  if (!plan) return plan.error();
  if (options.on_notice && !plan->notice.empty()) options.on_notice(plan->notice);
  return write_model(*plan, options.output);
}

}  // namespace edgedraft
