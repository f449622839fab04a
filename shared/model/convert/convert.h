#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/error.h"
#include "shared/model/model_plan.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

// Selects tensors of a GGUF file that keep their type.
using KeptTensors = bool (*)(std::string_view tensor);

struct ConvertOptions {
  std::filesystem::path input;   // a Hugging Face directory or a GGUF file
  std::filesystem::path output;  // a GGUF file, replaced if it exists
  // Type of the matrices. Norms and biases stay f32, the head gets at least six bits, and rows that
  // are not whole blocks become q8_0 or f16. Unset: a GGUF file's types stay, a directory's become
  // f16.
  std::optional<DType> type = {};
  KeptTensors is_kept = nullptr;  // null: none; if set, the head is not raised either
  // Name for tokenizer.ggml.pre (pre_tokenizer_rules.h). Unset: a GGUF file's, or the one that fits
  // a directory's tokenizer.
  std::optional<std::string> pre = {};
  // Called for each omission, with text from the input; may be empty.
  std::function<void(const std::string& what)> on_notice{};
};

// Default type for a directory's matrices.
inline constexpr DType kTypeOfDirectories = DType::f16;

// Converts a model of a family that Hugging Face's layout has (families/family.h) to a GGUF file
// that llama.cpp reads too. Also changes the type of a GGUF file's matrices, or joins the parts of
// a model (gguf_parts.h). Shows progress on a terminal.
//
// Errors    io, bad_file, unsupported: naming the file, key or tensor, and the remedy if there is
//           one
Result<void> convert_model(const ConvertOptions& options);

// Plans the output of convert_model. Errors as there.
Result<ModelPlan> plan_model(const std::filesystem::path& input, std::optional<DType> type,
                             KeptTensors is_kept = nullptr,
                             const std::optional<std::string>& pre = {});

}  // namespace edgedraft
