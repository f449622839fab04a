#include "shared/tensor/dtype.h"

#include <array>
#include <bit>

#include "shared/base/check.h"
#include "shared/tensor/blocks.h"

namespace edgedraft {
namespace {

struct TypeRow {
  DTypeTraits traits;
  // Null where a block is a number.
  void (*decode)(const std::byte* from, float* to) = nullptr;
  void (*encode)(const float* from, std::byte* to) = nullptr;
};

// Indexed by DType.
constexpr std::array<TypeRow, 11> kTypes = {{
    {{.name = "f32", .block_count = 1, .block_bytes = 4}},
    {{.name = "f16", .block_count = 1, .block_bytes = 2}},
    {{.name = "bf16", .block_count = 1, .block_bytes = 2}},
    {{.name = "q8_0", .block_count = blocks::kSmallCount, .block_bytes = 34},
     blocks::decode_q8_0,
     blocks::encode_q8_0},
    {{.name = "q4_0", .block_count = blocks::kSmallCount, .block_bytes = 18},
     blocks::decode_q4_0,
     blocks::encode_q4_0},
    {{.name = "q4_1", .block_count = blocks::kSmallCount, .block_bytes = 20},
     blocks::decode_q4_1,
     blocks::encode_q4_1},
    {{.name = "q5_0", .block_count = blocks::kSmallCount, .block_bytes = 22},
     blocks::decode_q5_0,
     blocks::encode_q5_0},
    {{.name = "q5_1", .block_count = blocks::kSmallCount, .block_bytes = 24},
     blocks::decode_q5_1,
     blocks::encode_q5_1},
    {{.name = "q4_k", .block_count = blocks::kLargeCount, .block_bytes = 144},
     blocks::decode_q4_k,
     blocks::encode_q4_k},
    {{.name = "q5_k", .block_count = blocks::kLargeCount, .block_bytes = 176},
     blocks::decode_q5_k,
     blocks::encode_q5_k},
    {{.name = "q6_k", .block_count = blocks::kLargeCount, .block_bytes = 210},
     blocks::decode_q6_k,
     blocks::encode_q6_k},
}};

const TypeRow& row_of(DType type) {
  const auto index = static_cast<std::size_t>(type);
  EDGEDRAFT_CHECK(index < kTypes.size());
  return kTypes[index];
}

}  // namespace

const DTypeTraits& traits(DType type) {
  return row_of(type).traits;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].traits.name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> row_bytes(DType type, std::uint64_t count) {
  const DTypeTraits& t = traits(type);
  if (count % t.block_count != 0) return std::nullopt;
  return checked_mul(count / t.block_count, t.block_bytes);
}

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1Fu;
  const std::uint32_t mantissa = half & 0x3FFu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1.0p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide_exponent = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide_exponent << 23 | mantissa << 13);
}

std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return sign | 0x7E00u;   // NaN
  if (magnitude >= 0x477FF000u) return sign | 0x7C00u;  // 65520 and more round to infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 leaves the rounded multiple of 2^-24 in the low mantissa bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000u));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  const std::uint32_t rounded = magnitude + 0xFFFu + odd - (std::uint32_t{127 - 15} << 23);
  return static_cast<std::uint16_t>(sign | rounded >> 13);
}

float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

std::uint16_t float_to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

void dequantize_row(DType type, ByteView from, std::span<float> to) {
  EDGEDRAFT_CHECK(row_bytes(type, to.size()) == from.size());
  switch (type) {
    case DType::f32:
      std::memcpy(to.data(), from.data(), from.size());
      break;
    case DType::f16:
      for (std::size_t i = 0; i < to.size(); ++i) {
        to[i] = half_to_float(load_le<std::uint16_t>(&from[2 * i]));
      }
      break;
    case DType::bf16:
      for (std::size_t i = 0; i < to.size(); ++i) {
        to[i] = bfloat16_to_float(load_le<std::uint16_t>(&from[2 * i]));
      }
      break;
    default: {
      const TypeRow& row = row_of(type);
      const DTypeTraits& t = row.traits;
      for (std::size_t b = 0; b < to.size() / t.block_count; ++b) {
        row.decode(&from[b * t.block_bytes], &to[b * t.block_count]);
      }
    }
  }
}

void quantize_row(DType type, std::span<const float> from, std::span<std::byte> to) {
  EDGEDRAFT_CHECK(row_bytes(type, from.size()) == to.size());
  switch (type) {
    case DType::f32:
      std::memcpy(to.data(), from.data(), to.size());
      break;
    case DType::f16:
      for (std::size_t i = 0; i < from.size(); ++i) store_le(&to[2 * i], float_to_half(from[i]));
      break;
    case DType::bf16:
      for (std::size_t i = 0; i < from.size(); ++i)
        store_le(&to[2 * i], float_to_bfloat16(from[i]));
      break;
    default: {
      const TypeRow& row = row_of(type);
      const DTypeTraits& t = row.traits;
      for (std::size_t b = 0; b < from.size() / t.block_count; ++b) {
        row.encode(&from[b * t.block_count], &to[b * t.block_bytes]);
      }
    }
  }
}

}  // namespace edgedraft
