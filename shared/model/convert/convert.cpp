#include "shared/model/convert/convert.h"

#include <string>
#include <utility>

#include "shared/model/convert/gguf_model.h"
#include "shared/model/convert/hf_model.h"
#include "shared/model/convert/independent_bundle.h"
#include "shared/model/convert/moa_bundle.h"
#include "shared/model/convert/reduced_head.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/fingerprint.h"

namespace edgedraft {
namespace {

constexpr DType kTypeOfDirectories = DType::f16;

Result<ModelPlan> plan_model(const std::filesystem::path& input, std::optional<DType> type) {
  if (std::filesystem::is_directory(input)) {
    return plan_hf_model(input, type.value_or(kTypeOfDirectories));
  }
  return plan_gguf_model(input, type);
}

Result<void> write_bundle(ModelPlan& plan, const BundleOptions& options) {
  if (!options.draft_tokens.empty()) {
    if (auto reduced = reduce_head(options.draft_tokens, plan); !reduced) return reduced.error();
  }
  return write_model(plan, options.output);
}

bool is_moa_checkpoint(const SafetensorsModel& checkpoint) {
  return checkpoint.find("Ekv2E.weight") != nullptr;
}

}  // namespace

Result<void> convert_model(const ConvertOptions& options) {
  const auto plan = plan_model(options.input, options.type);
  if (!plan) return plan.error();
  return write_model(*plan, options.output);
}

Result<void> make_bundle(const BundleOptions& options) {
  const auto target = GgufFile::open(options.target);
  if (!target) return target.error();
  const auto model = read_decoder(*target);
  if (!model) return model.error();
  if (std::filesystem::is_directory(options.drafter)) {
    auto checkpoint = SafetensorsModel::open(options.drafter);
    if (!checkpoint) return checkpoint.error();
    if (is_moa_checkpoint(*checkpoint)) {
      auto plan = plan_moa_bundle({.target = *target,
                                   .checkpoint = std::move(*checkpoint),
                                   .directory = options.drafter,
                                   .type = options.type.value_or(kTypeOfDirectories)});
      if (!plan) return plan.error();
      return write_bundle(*plan, options);
    }
  }
  auto plan = plan_model(options.drafter, options.type);
  if (!plan) return plan.error();
  if (auto bound = bind_to_target(*target, model->config, *plan); !bound) return bound.error();
  return write_bundle(*plan, options);
}

Result<void> reduce_bundle(const ReduceOptions& options) {
  auto file = GgufFile::open(options.bundle);
  if (!file) return file.error();
  if (file->find_value(kTargetFingerprintKey) == nullptr) {
    return Error{Errc::usage, "--draft-vocab: " + options.bundle.string() +
                                  " is no drafter but a model; make its drafter's bundle with "
                                  "--bundle --drafter DIR as well"};
  }
  ModelPlan plan;
  for (const auto& [key, value] : file->metadata()) plan.metadata.set(std::string(key), value);
  for (const GgufTensor& tensor : file->tensors()) {
    plan.tensors.push_back(copy_of(tensor, std::string(tensor.name)));
  }
  if (auto reduced = reduce_head(options.draft_tokens, plan); !reduced) {
    return in_file(options.bundle, reduced.error());
  }
  return write_model(plan, options.output);
}

}  // namespace edgedraft
