#include "shared/drafting/bundle_conversion.h"

#include <algorithm>
#include <string>
#include <utility>

#include "shared/base/check.h"
#include "shared/drafting/kinds.h"
#include "shared/model/convert/reduced_head.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/fingerprint.h"

namespace edgedraft {
namespace {

const DrafterKind& kind_of_source(const std::filesystem::path& drafter) {
  const auto kinds = drafter_kinds();
  const auto found = std::ranges::find_if(kinds, [&](const DrafterKind* kind) {
    return kind->is_source != nullptr && kind->is_source(drafter);
  });
  EDGEDRAFT_CHECK(found != kinds.end());  // the table's last kind takes anything
  return **found;
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
  if (!options.draft_tokens.empty()) {
    if (auto reduced = reduce_head(options.draft_tokens, *plan); !reduced) return reduced.error();
  }
  return write_model(*plan, options.output);
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

Result<void> convert_model_or_bundle(ConvertOptions options) {
  if (!std::filesystem::is_directory(options.input)) {
    const auto file = GgufFile::open(options.input);
    if (!file) return file.error();
    if (const auto kind = drafter_kind_of(*file)) options.is_kept = (*kind)->is_from_target;
  }
  return convert_model(options);
}

}  // namespace edgedraft
