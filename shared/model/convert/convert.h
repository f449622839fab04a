#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "shared/base/error.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

struct ConvertOptions {
  std::filesystem::path input;   // a Hugging Face directory or a GGUF file
  std::filesystem::path output;  // a GGUF file, replaced if it exists
  // Of the matrices; norms and biases stay f32, the head gets six bits at least, and rows that are
  // no whole number of blocks become q8_0 or f16. Nothing: a GGUF file's stay as they are, a
  // directory's become f16.
  std::optional<DType> type = {};
};

// Turns a Llama or Qwen2 model into a GGUF file that llama.cpp reads too, stores a GGUF file's
// matrices in another type, or makes one file of several (gguf_parts.h). Shows its progress on a
// terminal.
//
// Errors    io, bad_file, unsupported: naming the file, key or tensor, and the remedy where there
// is one
Result<void> convert_model(const ConvertOptions& options);

struct BundleOptions {
  std::filesystem::path target;  // the target's GGUF file
  std::filesystem::path
      drafter;  // a directory: MoA checkpoint or Llama model, or a Llama GGUF file
  std::filesystem::path output;
  std::optional<DType> type = {};                // as above, of the drafter's own matrices
  std::vector<std::uint32_t> draft_tokens = {};  // all that the head may propose; empty: any token
};

// Packs a drafter with all that a device needs to draft for `target`. The target's embedding, head
// and last layers are copied bit for bit, whatever `type` says.
//
// Errors    as above; mismatch where drafter and target do not belong together
Result<void> make_bundle(const BundleOptions& options);

struct ReduceOptions {
  std::filesystem::path bundle;
  std::filesystem::path output;
  std::vector<std::uint32_t> draft_tokens;
};

// Copies a bundle bit for bit but for its head, of which it keeps the rows of `draft_tokens`.
//
// Errors    as above; usage for a model that is no drafter
Result<void> reduce_bundle(const ReduceOptions& options);

}  // namespace edgedraft
