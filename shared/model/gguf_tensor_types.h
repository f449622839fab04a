#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "shared/tensor/dtype.h"

namespace edgedraft {

// A tensor type's number in GGUF files.
struct GgufTensorType {
  std::uint32_t number;
  std::string_view name;
  std::optional<DType> type;  // if we read and write it
};

// Null for an unknown number.
const GgufTensorType* find_gguf_tensor_type(std::uint32_t number);

std::uint32_t gguf_type_number(DType type);

}  // namespace edgedraft
