#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/error.h"
#include "shared/model/convert/model_plan.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

// Which tensors of a GGUF file stay as they are, whatever type is asked for.
using KeptTensors = bool (*)(std::string_view tensor);

struct ConvertOptions {
  std::filesystem::path input;   // a Hugging Face directory or a GGUF file
  std::filesystem::path output;  // a GGUF file, replaced if it exists
  // The matrices' type; norms and biases stay f32, the head gets six bits at least, and rows that
  // are no whole number of blocks become q8_0 or f16. Nothing: a GGUF file's stay as they are, a
  // directory's become f16.
  std::optional<DType> type = {};
  KeptTensors is_kept = nullptr;  // null: none; otherwise the head is not raised either
  // Hears of what is left out, text of the input among it; may be empty.
  std::function<void(const std::string& what)> on_notice{};
};

// What a directory's matrices become if no type is given.
inline constexpr DType kTypeOfDirectories = DType::f16;

// Turns a Llama or Qwen2 model into a GGUF file that llama.cpp reads too, stores a GGUF file's
// matrices in another type, or makes one file of several (gguf_parts.h). Shows its progress on a
// terminal.
//
// Errors    io, bad_file, unsupported: naming the file, key or tensor, and the remedy where there
// is one
Result<void> convert_model(const ConvertOptions& options);

// Plans what convert_model writes. Errors as there.
Result<ModelPlan> plan_model(const std::filesystem::path& input, std::optional<DType> type,
                             KeptTensors is_kept = nullptr);

}  // namespace edgedraft
