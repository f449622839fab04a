#include "shared/model/convert/convert.h"

#include <string>
#include <utility>

#include "shared/model/convert/gguf_model.h"
#include "shared/model/convert/hf_model.h"
#include "shared/model/convert/moa_bundle.h"
#include "shared/model/convert/reduced_head.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/fingerprint.h"

namespace edgedraft {
namespace {

Result<ModelPlan> plan_model(const std::filesystem::path& input, DType type) {
  if (std::filesystem::is_directory(input)) return plan_hf_model(input, type);
  return plan_gguf_model(input, type);
}

bool same_tokenizer(const GgufMetadata& a, const GgufMetadata& b) {
  for (const char* key : {"tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.scores",
                          "tokenizer.ggml.token_type", "tokenizer.ggml.merges"}) {
    const auto x = a.values().find(key);
    const auto y = b.values().find(key);
    const bool x_there = x != a.values().end();
    if (x_there != (y != b.values().end())) return false;
    if (x_there && x->second.bytes != y->second.bytes) return false;
  }
  return true;
}

// Turns the plan of an ordinary model into that of a drafter for `target`.
Result<void> bind_to_target(const GgufFile& target, const DecoderConfig& config, ModelPlan& plan) {
  GgufMetadata tokenizer;
  for (const auto& [key, value] : target.metadata()) {
    if (key.starts_with("tokenizer.")) tokenizer.set(std::string(key), value);
  }
  const bool has_own = plan.metadata.values().contains("tokenizer.ggml.tokens");
  if (has_own && !same_tokenizer(plan.metadata, tokenizer)) {
    return Error{Errc::mismatch, "drafter and target have different tokenizers"};
  }
  for (const PlannedTensor& tensor : plan.tensors) {
    if (tensor.info.name == "token_embd.weight" &&
        tensor.info.dims.back() != config.vocabulary_count) {
      return Error{Errc::mismatch, "the drafter has " + std::to_string(tensor.info.dims.back()) +
                                       " tokens, the target " +
                                       std::to_string(config.vocabulary_count)};
    }
  }
  for (const auto& [key, value] : target.metadata()) {
    if (key.starts_with("tokenizer.")) plan.metadata.set(std::string(key), value);
  }
  const auto fingerprint = model_fingerprint(target);
  if (!fingerprint) return fingerprint.error();
  plan.metadata.set_string(std::string(kTargetFingerprintKey), to_hex(*fingerprint));
  return {};
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
                                   .type = options.type});
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
