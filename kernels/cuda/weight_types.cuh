#pragma once

#include "kernels/cuda/device.cuh"

// Element types of weights in file format (shared/tensor/blocks.h) or coded layout
// (coded_blocks.h), one element at a time, for embedding tables and packing. Products and
// differences are rounded one by one, for bits equal to the CPU decoder's.
namespace edgedraft::cuda {

__device__ inline std::uint32_t byte_at(const std::byte* from) {
  return static_cast<std::uint32_t>(*from);
}
__device__ inline std::uint16_t half_bits_at(const std::byte* from) {
  return static_cast<std::uint16_t>(byte_at(from) | byte_at(from + 1) << 8);
}

// x = factor * scale * level - minimum_factor * minimum, with factors in float16, mxfp4's in
// bfloat16. `level` and `scale` are in -128..127. Coded types: the level's code; their unit is left
// out.
struct Element {
  std::int32_t level;
  std::uint16_t factor;
  std::int32_t scale;
  std::uint16_t minimum_factor;
  std::int32_t minimum;
  std::uint32_t code;
};
__device__ inline float scale_of(DType type, const Element& e) {
  const float factor = type == DType::mxfp4 ? bfloat16_to_float(e.factor) : half_to_float(e.factor);
  return __fmul_rn(factor, static_cast<float>(e.scale));
}
__device__ inline float minimum_of(const Element& e) {
  return __fmul_rn(half_to_float(e.minimum_factor), static_cast<float>(e.minimum));
}

// Six-bit scale and minimum of group 0..7 of q4_k and q5_k.
__device__ inline void unpack_group(const std::byte* packed, std::uint32_t group,
                                    std::uint32_t& scale, std::uint32_t& minimum) {
  if (group < 4) {
    scale = byte_at(packed + group) & 63u;
    minimum = byte_at(packed + group + 4) & 63u;
  } else {
    scale = (byte_at(packed + group + 4) & 15u) | byte_at(packed + group - 4) >> 6 << 4;
    minimum = byte_at(packed + group + 4) >> 4 | byte_at(packed + group) >> 6 << 4;
  }
}

// Element i of a block of 32 four- or five-bit elements.
__device__ inline Element small_element(DType type, const std::byte* block, std::uint32_t i) {
  const bool has_offset = type == DType::q4_1 || type == DType::q5_1;
  const bool has_fifths = type == DType::q5_0 || type == DType::q5_1;
  const std::byte* fifths = block + (has_offset ? 4 : 2);
  const std::byte* fours = fifths + (has_fifths ? 4 : 0);
  std::uint32_t level = byte_at(fours + i % 16) >> (i / 16 * 4) & 15u;
  if (has_fifths) level |= (byte_at(fifths + i / 8) >> i % 8 & 1u) << 4;
  const auto number = static_cast<std::int32_t>(level);
  if (has_offset) return {number, half_bits_at(block), 1, half_bits_at(block + 2), -1};
  return {number - (has_fifths ? 16 : 8), half_bits_at(block), 1, 0, 0};
}

// Element i of a block in coded layout.
__device__ inline Element coded_element(DType type, const std::byte* block, std::uint32_t i) {
  const bool is_large = traits(type).block_count > 32;
  const std::uint32_t both = byte_at(block + (is_large ? 18 : 2) + i / 32 * 16 + i % 16);
  const std::uint32_t code = both >> (i / 16 % 2 * 4) & 15u;
  const std::int32_t scale = is_large ? static_cast<std::int8_t>(byte_at(block + 2 + i / 16)) : 1;
  return {code_table(type).value[code], half_bits_at(block), scale, 0, 0, code};
}

// Scale and minimum are per 16 elements.
__device__ inline Element q2_k_element(const std::byte* block, std::uint32_t i) {
  const std::uint32_t group = byte_at(block + i / 16);
  const std::uint32_t level = byte_at(block + 16 + i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2) & 3u;
  return {static_cast<std::int32_t>(level), half_bits_at(block + 80),
          static_cast<std::int32_t>(group & 15u), half_bits_at(block + 82),
          static_cast<std::int32_t>(group >> 4)};
}

// Element k of a row of a quantized type.
__device__ inline Element element(DType type, const std::byte* row, std::uint32_t k) {
  const DTypeTraits t = traits(type);
  if (is_coded(type)) {
    const std::size_t index = k / t.block_count;
    return coded_element(type, row + index * coded_block_bytes(type), k % t.block_count);
  }
  const std::byte* block = row + std::size_t{k / t.block_count} * t.block_bytes;
  const std::uint32_t i = k % t.block_count;
  if (type == DType::q8_0) {
    return {static_cast<std::int8_t>(byte_at(block + 2 + i)), half_bits_at(block), 1, 0, 0};
  }
  if (t.block_count == 32) return small_element(type, block, i);
  if (type == DType::q2_k) return q2_k_element(block, i);
  const std::uint32_t group = i / 32;
  if (type == DType::q6_k) {
    const std::uint32_t half = i / 128;
    const std::uint32_t part = group % 4;
    const std::uint32_t four = byte_at(block + half * 64 + i % 64) >> (part / 2 * 4) & 15u;
    const std::uint32_t two = byte_at(block + 128 + half * 32 + i % 32) >> (part * 2) & 3u;
    const auto scale = static_cast<std::int8_t>(byte_at(block + 192 + i / 16));
    return {static_cast<std::int32_t>(four | two << 4) - 32, half_bits_at(block + 208), scale, 0,
            0};
  }
  std::uint32_t scale = 0;
  std::uint32_t minimum = 0;
  unpack_group(block + 4, group, scale, minimum);
  const std::byte* fours = block + (type == DType::q5_k ? 48 : 16);
  std::uint32_t level = byte_at(fours + group / 2 * 32 + i % 32) >> (group % 2 * 4) & 15u;
  if (type == DType::q5_k) level |= (byte_at(block + 16 + i % 32) >> group & 1u) << 4;
  return {static_cast<std::int32_t>(level), half_bits_at(block), static_cast<std::int32_t>(scale),
          half_bits_at(block + 2), static_cast<std::int32_t>(minimum)};
}

// Element k of a row of any type, with the bits of dequantize_row.
__device__ inline float decoded(DType type, const std::byte* row, std::uint32_t k) {
  switch (type) {
    case DType::f32:
      return reinterpret_cast<const float*>(row)[k];
    case DType::f16:
      return half_to_float(reinterpret_cast<const std::uint16_t*>(row)[k]);
    case DType::bf16:
      return bfloat16_to_float(reinterpret_cast<const std::uint16_t*>(row)[k]);
    default: {
      const Element e = element(type, row, k);
      const float product = __fmul_rn(scale_of(type, e), static_cast<float>(e.level));
      if (is_coded(type)) return __fmul_rn(product, code_table(type).unit);
      return packing(type).has_minimum ? __fsub_rn(product, minimum_of(e)) : product;
    }
  }
}

}  // namespace edgedraft::cuda
