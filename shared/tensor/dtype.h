#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "shared/base/bytes.h"
#include "shared/tensor/element_type.h"

namespace edgedraft {

std::optional<DType> dtype_from_name(std::string_view name);
// As above, for a type of keys and values.
std::optional<DType> cache_type_from_name(std::string_view name);

// Bytes of a row of `count` elements; nullopt if `count` is not a multiple of the block size or on
// overflow.
std::optional<std::uint64_t> row_bytes(DType type, std::uint64_t count);

float half_to_float(std::uint16_t half);
// Rounds to nearest, ties to even; overflow becomes infinity.
std::uint16_t float_to_half(float value);
float bfloat16_to_float(std::uint16_t bits);
std::uint16_t float_to_bfloat16(float value);

// Decodes a row. Requires from.size() == row_bytes(type, to.size()), for i8 cache_bytes().
void dequantize_row(DType type, ByteView from, std::span<float> to);
// Inverse, rounding to nearest. Types of 4, 5 and 6 bits search for good scales.
// Requires is_writable(type) and to.size() == row_bytes(type, from.size()); or i8, as above.
void quantize_row(DType type, std::span<const float> from, std::span<std::byte> to);

}  // namespace edgedraft
