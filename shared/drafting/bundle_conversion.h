#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/convert/convert.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

struct BundleOptions {
  std::filesystem::path target;   // the target's GGUF file
  std::filesystem::path drafter;  // a checkpoint or model: a directory, or a GGUF file
  std::filesystem::path output;
  std::optional<DType> type = {};  // as in ConvertOptions, of the drafter's own matrices
  std::vector<std::uint32_t> draft_tokens = {};  // all that the head may propose; empty: any token
};

// Packs a drafter with all that a device needs to draft for `target`. What it shares with the
// target is copied bit for bit, whatever `type` says.
//
// Errors    as convert_model; mismatch if drafter and target do not belong together
Result<void> make_bundle(const BundleOptions& options);

struct ReduceOptions {
  std::filesystem::path bundle;
  std::filesystem::path output;
  std::vector<std::uint32_t> draft_tokens;
};

// Copies a bundle bit for bit, except that its head keeps only the rows of `draft_tokens`.
//
// Errors    as above; usage for a model that is no drafter
Result<void> reduce_bundle(const ReduceOptions& options);

// convert_model, for bundles too: what they share with their target stays as it is.
//
// Errors    as above; unsupported for the folder of a drafter that is no model by itself
Result<void> convert_model_or_bundle(ConvertOptions options);

}  // namespace edgedraft
