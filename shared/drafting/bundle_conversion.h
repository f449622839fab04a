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
  std::optional<DType> type = {};  // as in ConvertOptions, for the drafter's own matrices
  std::vector<std::uint32_t> draft_tokens = {};  // tokens that the head may propose; empty: all
};

// Packs a drafter with everything a device needs to draft for `target`. Tensors shared with the
// target are copied bit for bit, regardless of `type`.
//
// Errors    as convert_model; mismatch if drafter and target do not belong together
Result<void> make_bundle(const BundleOptions& options);

struct SplitOptions {
  std::filesystem::path model;  // GGUF file
  std::filesystem::path output;
  std::vector<std::uint32_t> draft_tokens = {};  // as in BundleOptions
};

// Cuts the drafter that the model's file brings (MTP) out of it, as a bundle for the model.
//
// Errors    as make_bundle; usage for a model without one, with the kinds that suit it
Result<void> split_drafter(const SplitOptions& options);

struct ReduceOptions {
  std::filesystem::path bundle;
  std::filesystem::path output;
  std::vector<std::uint32_t> draft_tokens;
};

// Copies a bundle bit for bit, keeping only the rows of `draft_tokens` in its head.
//
// Errors    as above; usage for a model that is not a drafter
Result<void> reduce_bundle(const ReduceOptions& options);

// convert_model, also for bundles: tensors shared with the target stay unchanged.
//
// Errors    as above; unsupported for the folder of a drafter that is not a model by itself
Result<void> convert_model_or_bundle(ConvertOptions options);

}  // namespace edgedraft
