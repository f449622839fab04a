#include "shared/tensor/dtype.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "shared/base/check.h"
#include "shared/tensor/blocks.h"
#include "shared/tensor/coded_blocks.h"

namespace edgedraft {
namespace {

// Conversion of a block to floats and, if is_writable, back.
struct BlockCodec {
  void (*decode)(const std::byte* from, float* to);
  void (*encode)(const float* from, std::byte* to);
};

template <DType kType>
void decode_by_codes(const std::byte* from, float* to) {
  std::byte coded[coded_block_bytes(kType)];
  blocks::code_block(kType, from, coded);
  blocks::decode_coded(kType, coded, to);
}

BlockCodec codec_of(DType type) {
  switch (type) {
    case DType::q8_0:
      return {blocks::decode_q8_0, blocks::encode_q8_0};
    case DType::q4_0:
      return {blocks::decode_q4_0, blocks::encode_q4_0};
    case DType::q4_1:
      return {blocks::decode_q4_1, blocks::encode_q4_1};
    case DType::q5_0:
      return {blocks::decode_q5_0, blocks::encode_q5_0};
    case DType::q5_1:
      return {blocks::decode_q5_1, blocks::encode_q5_1};
    case DType::q4_k:
      return {blocks::decode_q4_k, blocks::encode_q4_k};
    case DType::q5_k:
      return {blocks::decode_q5_k, blocks::encode_q5_k};
    case DType::q6_k:
      return {blocks::decode_q6_k, blocks::encode_q6_k};
    case DType::q2_k:
      return {blocks::decode_q2_k, nullptr};
    case DType::q3_k:
      return {decode_by_codes<DType::q3_k>, nullptr};
    case DType::iq4_xs:
      return {decode_by_codes<DType::iq4_xs>, nullptr};
    case DType::iq3_s:
      return {decode_by_codes<DType::iq3_s>, nullptr};
    case DType::iq3_xxs:
      return {decode_by_codes<DType::iq3_xxs>, nullptr};
    case DType::iq2_s:
      return {decode_by_codes<DType::iq2_s>, nullptr};
    case DType::iq2_xs:
      return {decode_by_codes<DType::iq2_xs>, nullptr};
    case DType::iq2_xxs:
      return {decode_by_codes<DType::iq2_xxs>, nullptr};
    case DType::iq4_nl:
      return {decode_by_codes<DType::iq4_nl>, nullptr};
    case DType::mxfp4:
      return {decode_by_codes<DType::mxfp4>, nullptr};
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::i8:
      break;
  }
  check_failed("a type without blocks", BOOST_CURRENT_LOCATION);
}

constexpr float kFloatMax = std::numeric_limits<float>::max();

// --- i8 (kCacheTypes) ---

void decode_int8_block(const std::byte* from, std::span<float> to) {
  const auto scale = load_le<float>(from);
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] = static_cast<float>(static_cast<std::int8_t>(from[sizeof scale + i])) * scale;
  }
}

void encode_int8_block(std::span<const float> from, std::byte* to) {
  float largest = 0.0f;
  bool is_finite = true;
  for (const float x : from) {
    is_finite = is_finite && std::abs(x) <= kFloatMax;
    largest = std::max(largest, std::abs(x));
  }
  const bool is_zero = !is_finite || largest < kInt8Smallest;
  const float scale = std::min(largest / 127.0f, kInt8ScaleMax);
  store_le(to, !is_finite ? std::numeric_limits<float>::quiet_NaN() : is_zero ? 0.0f : scale);
  for (std::size_t i = 0; i < kInt8Block; ++i) {
    const float level = is_zero || i >= from.size() ? 0.0f : std::nearbyint(from[i] / scale);
    to[sizeof scale + i] = static_cast<std::byte>(static_cast<std::int8_t>(level));
  }
}

}  // namespace

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DType type : kDTypes) {
    if (traits(type).name == name) return type;
  }
  return std::nullopt;
}

std::optional<DType> cache_type_from_name(std::string_view name) {
  for (const DType type : kCacheTypes) {
    if (traits(type).name == name) return type;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> row_bytes(DType type, std::uint64_t count) {
  const DTypeTraits t = traits(type);
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
  if (type == DType::i8) {
    EDGEDRAFT_CHECK(cache_bytes(type, to.size()) == from.size());
    for (std::size_t i = 0; i < to.size(); i += kInt8Block) {
      decode_int8_block(&from[cache_bytes(type, i)],
                        to.subspan(i, std::min<std::size_t>(kInt8Block, to.size() - i)));
    }
    return;
  }
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
      const BlockCodec codec = codec_of(type);
      const DTypeTraits t = traits(type);
      for (std::size_t b = 0; b < to.size() / t.block_count; ++b) {
        codec.decode(&from[b * t.block_bytes], &to[b * t.block_count]);
      }
    }
  }
}

void quantize_row(DType type, std::span<const float> from, std::span<std::byte> to) {
  if (type == DType::i8) {
    EDGEDRAFT_CHECK(cache_bytes(type, from.size()) == to.size());
    for (std::size_t i = 0; i < from.size(); i += kInt8Block) {
      encode_int8_block(from.subspan(i, std::min<std::size_t>(kInt8Block, from.size() - i)),
                        &to[cache_bytes(type, i)]);
    }
    return;
  }
  EDGEDRAFT_CHECK(is_writable(type));
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
      const BlockCodec codec = codec_of(type);
      const DTypeTraits t = traits(type);
      for (std::size_t b = 0; b < from.size() / t.block_count; ++b) {
        codec.encode(&from[b * t.block_count], &to[b * t.block_bytes]);
      }
    }
  }
}

}  // namespace edgedraft
