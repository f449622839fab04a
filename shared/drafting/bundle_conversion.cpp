#include "shared/drafting/bundle_conversion.h"

#include <algorithm>
#include <string>

#include "shared/base/check.h"
#include "shared/drafting/kinds.h"
#include "shared/drafting/training_record.h"
#include "shared/model/convert/reduced_head.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/fingerprint.h"
#include "shared/model/safetensors.h"

namespace edgedraft {
namespace {

const DrafterKind& kind_of_source(const std::filesystem::path& drafter) {
  const auto kinds = drafter_kinds();
  const auto found = std::ranges::find_if(kinds, [&](const DrafterKind* kind) {
    return kind->is_source != nullptr && kind->is_source(drafter);
  });
  EDGEDRAFT_CHECK(found != kinds.end());  // the table's last kind accepts anything
  return **found;
}

// Refuses a checkpoint that shares its target's tensors: it is not a model by itself.
Result<void> refuse_drafter(const std::filesystem::path& directory) {
  const DrafterKind& kind = kind_of_source(directory);
  if (kind.is_from_target == nullptr) return {};
  std::string message =
      directory.string() + ": this is a drafter (" + std::string(kind.name) + "), not a target. ";
  const auto checkpoint = SafetensorsModel::open(directory);
  if (checkpoint && checkpoint->find("model.embed_tokens.weight") != nullptr) {
    message +=
        "The model that was trained with it is in the same folder: save that model without the "
        "drafter's tensors in a separate folder and convert it, then make the drafter's bundle "
        "with --bundle --drafter ";
  } else {
    message +=
        "Convert the model that it was trained for, then make its bundle with --bundle --drafter ";
  }
  return Error{Errc::unsupported, message + directory.string()};
}

// Kinds of drafters that `edgedraft convert` makes for the target.
std::string convertible_kinds(const DecoderConfig& target) {
  std::string names;
  for (const DrafterKind* kind : drafter_kinds()) {
    if (kind->plan_bundle == nullptr) continue;
    if (kind->takes_target != nullptr && !kind->takes_target(target)) continue;
    names += (names.empty() ? "" : ", ") + std::string(kind->name);
  }
  return names;
}

Error no_own_drafter(const std::filesystem::path& model, const DecoderConfig& target) {
  return {Errc::usage,
          model.string() +
              ": the file brings no drafter: it has no block for multi-token prediction (MTP). "
              "Drafters of its tokenizer alone need no file: --drafter " +
              weightless_kind_names() +
              ". With weights made for it, or a smaller model with its tokenizer, `edgedraft "
              "convert MODEL --bundle --drafter DIR` makes a bundle: " +
              convertible_kinds(target)};
}

}  // namespace

Result<void> make_bundle(const BundleOptions& options) {
  const auto target = GgufFile::open(options.target);
  if (!target) return target.error();
  if (const auto model = read_decoder(*target); !model) return model.error();
  auto plan =
      kind_of_source(options.drafter)
          .plan_bundle({.target = *target, .drafter = options.drafter, .type = options.type});
  if (!plan) return plan.error();
  const auto training = read_training_config(options.drafter);
  if (!training) return training.error();
  if (*training) set_training(**training, plan->metadata);
  if (!options.draft_tokens.empty()) {
    if (auto reduced = reduce_head(options.draft_tokens, *plan); !reduced) return reduced.error();
  }
  return write_model(*plan, options.output);
}

Result<void> split_drafter(const SplitOptions& options) {
  const auto target = GgufFile::open(options.model);
  if (!target) return target.error();
  if (drafter_kind_of(*target) && target->find_value(kTargetFingerprintKey) != nullptr) {
    return Error{Errc::usage, options.model.string() +
                                  ": is a drafter already; give the model that it was made for"};
  }
  const auto model = read_decoder(*target);
  if (!model) return in_file(options.model, model.error());
  const DrafterKind* const kind = own_drafter_kind(model->config);
  if (kind == nullptr) return no_own_drafter(options.model, model->config);
  auto plan = kind->plan_split(*target);
  if (!plan) return in_file(options.model, plan.error());
  if (!options.draft_tokens.empty()) {
    if (auto reduced = reduce_head(options.draft_tokens, *plan); !reduced) return reduced.error();
  }
  return write_model(*plan, options.output);
}

Result<void> reduce_bundle(const ReduceOptions& options) {
  auto plan = plan_model(options.bundle, std::nullopt);
  if (!plan) return plan.error();
  if (!plan->metadata.values().contains(std::string(kTargetFingerprintKey))) {
    return Error{Errc::usage, "--draft-vocab: " + options.bundle.string() +
                                  " is a model, not a drafter; also make its drafter's bundle "
                                  "with --bundle --drafter DIR"};
  }
  if (auto reduced = reduce_head(options.draft_tokens, *plan); !reduced) {
    return in_file(options.bundle, reduced.error());
  }
  return write_model(*plan, options.output);
}

Result<void> convert_model_or_bundle(ConvertOptions options) {
  if (!std::filesystem::is_directory(options.input)) {
    const auto file = GgufFile::open(options.input);
    if (!file) return file.error();
    if (const auto kind = drafter_kind_of(*file)) options.is_kept = (*kind)->is_from_target;
  } else if (auto is_model = refuse_drafter(options.input); !is_model) {
    return is_model.error();
  }
  return convert_model(options);
}

}  // namespace edgedraft
