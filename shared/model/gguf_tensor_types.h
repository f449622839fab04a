#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "shared/tensor/dtype.h"

namespace edgedraft {

// A tensor type's number in GGUF files.
struct GgufTensorType {
  std::uint32_t number;
  std::string_view name;
  std::optional<DType> type;  // if we read it
};

// Null for an unknown number.
const GgufTensorType* find_gguf_tensor_type(std::uint32_t number);

// Names of all types that have a DType: "F32, F16 or MXFP4".
std::string readable_gguf_types();

std::uint32_t gguf_type_number(DType type);

}  // namespace edgedraft
