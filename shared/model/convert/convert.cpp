#include "shared/model/convert/convert.h"

#include <system_error>
#include <utility>

#include "shared/model/convert/hf_model.h"
#include "shared/model/tokenizer/pre_tokenizer_rules.h"

namespace edgedraft {

namespace {

// Stores another pre-tokenizer in a copy of a GGUF file.
Result<void> set_pre(const GgufFile& file, const std::string& pre, GgufMetadata& metadata) {
  const auto kind = file.get_string("tokenizer.ggml.model");
  if (!kind) return kind.error();
  if (*kind != "gpt2") {
    return Error{Errc::unsupported, "the tokenizer '" + std::string(*kind) +
                                        "' (tokenizer.ggml.model) has no pre-tokenizer; remove "
                                        "--pre"};
  }
  if (const auto known = find_pre_tokenizer_rules(pre); !known) return known.error();
  metadata.set_string("tokenizer.ggml.pre", pre);
  return {};
}

// Plans a copy of a GGUF model with its matrices in `type`, or unchanged.
Result<ModelPlan> plan_gguf_model(const std::filesystem::path& path, std::optional<DType> type,
                                  KeptTensors is_kept, const std::optional<std::string>& pre) {
  auto file = GgufFile::open(path);
  if (!file) return file.error();
  if (const auto architecture = file->architecture(); !architecture) return architecture.error();
  if (!file->token_table().empty()) {
    return Error{Errc::unsupported, path.string() +
                                        ": is a drafter with a vocabulary of its own (" +
                                        std::string(kGgufTokenTable) +
                                        "); make its target's bundle with --bundle --drafter"};
  }

  ModelPlan plan;
  for (const auto& [key, value] : file->metadata()) plan.metadata.set(std::string(key), value);
  if (pre) {
    if (auto done = set_pre(*file, *pre, plan.metadata); !done) return done.error();
  }
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
                             KeptTensors is_kept, const std::optional<std::string>& pre) {
  std::error_code unknown;  // opening it as a file reports the error
  if (std::filesystem::is_directory(input, unknown)) {
    return plan_hf_model(input, type.value_or(kTypeOfDirectories), pre);
  }
  return plan_gguf_model(input, type, is_kept, pre);
}

Result<void> convert_model(const ConvertOptions& options) {
  const auto plan = plan_model(options.input, options.type, options.is_kept, options.pre);
  if (!plan) return plan.error();
  if (options.on_notice && !plan->notice.empty()) options.on_notice(plan->notice);
  return write_model(*plan, options.output);
}

}  // namespace edgedraft
