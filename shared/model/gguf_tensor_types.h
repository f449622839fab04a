#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "shared/tensor/dtype.h"

namespace edgedraft {

// How a GGUF file numbers a tensor's type.
struct GgufTensorType {
  std::uint32_t number;
  std::string_view name;
  std::optional<DType> type;  // where we read and write it
};

// Null for a number that we know no name for.
const GgufTensorType* find_gguf_tensor_type(std::uint32_t number);

std::uint32_t gguf_type_number(DType type);

}  // namespace edgedraft
