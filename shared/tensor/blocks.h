#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/tensor/element_type.h"

// Quantised element types, block by block: GGUF's layouts, little-endian. Small blocks have 32
// elements, large ones 256; sizes in bytes are in the traits of element_type.h.
//
//   q8_0   scale f16 | 32 x i8                                           x = scale q
//   q4_0   scale f16 | 16 bytes: elements 0..15 low, 16..31 high halves  x = scale (q - 8)
//   q4_1   scale f16, offset f16 | the same 16 bytes                     x = scale q + offset
//   q5_0   scale f16 | fifth bits, bit i for element i | the 16 bytes    x = scale (q - 16)
//   q5_1   scale f16, offset f16 | fifth bits | the 16 bytes             x = scale q + offset
//   q4_k   d f16, m f16 | 12 bytes: 8 scales and 8 minima of 6 bits | 128 bytes: per 64 elements
//          the first 32 in the low, the others in the high halves        x = d scale q - m minimum
//   q5_k   as q4_k, with 32 bytes of fifth bits before the fours: bit g of byte i belongs to
//          element 32 g + i
//   q6_k   128 bytes of low fours | 64 bytes of high twos | 16 scales i8, one per 16 | d f16;
//          per 128 elements: low fours as in q4_k but in runs of 64, bits 2g, 2g+1 of byte i for
//          element 32 g + i                                              x = d scale (q - 32)
//   q2_k   16 bytes, one per 16 elements: scale low, minimum high | 64 bytes: per 128 elements,
//   bits
//          2g, 2g+1 of byte i for element 32 g + i | d f16, m f16        x = d scale q - m minimum
//
// coded_blocks.h has the others. Decoding rounds only the sum in q4_1 and q5_1 and the difference
// in q2_k, q4_k and q5_k: every product fits a float's 24 bits.
//
// Source    the ggml project's reference implementation
namespace edgedraft::blocks {

inline constexpr std::uint32_t kSmallCount = traits(DType::q4_0).block_count;
inline constexpr std::uint32_t kLargeCount = traits(DType::q4_k).block_count;

void decode_q8_0(const std::byte* from, float* to);
void decode_q4_0(const std::byte* from, float* to);
void decode_q4_1(const std::byte* from, float* to);
void decode_q5_0(const std::byte* from, float* to);
void decode_q5_1(const std::byte* from, float* to);
void decode_q4_k(const std::byte* from, float* to);
void decode_q5_k(const std::byte* from, float* to);
void decode_q6_k(const std::byte* from, float* to);
void decode_q2_k(const std::byte* from, float* to);

// Inverse. All but q8_0 search for the scale with the least squared error among those that map the
// largest element near the last level. Weighting large elements was measured to be worse.
// Infinities and NaN give undefined levels but are safe.
void encode_q8_0(const float* from, std::byte* to);
void encode_q4_0(const float* from, std::byte* to);
void encode_q4_1(const float* from, std::byte* to);
void encode_q5_0(const float* from, std::byte* to);
void encode_q5_1(const float* from, std::byte* to);
void encode_q4_k(const float* from, std::byte* to);
void encode_q5_k(const float* from, std::byte* to);
void encode_q6_k(const float* from, std::byte* to);

// Scale and minimum of group 0..7 in the 12 bytes of q4_k and q5_k, six bits each. The first four
// are stored whole; the upper two bits of the last four are in the top bits of the first.
struct PackedGroup {
  std::uint8_t scale;
  std::uint8_t minimum;
};
inline PackedGroup unpack_group(const std::byte* packed, std::uint32_t group) {
  const auto at = [packed](std::uint32_t i) { return std::to_integer<std::uint8_t>(packed[i]); };
  if (group < 4) {
    return {static_cast<std::uint8_t>(at(group) & 63),
            static_cast<std::uint8_t>(at(group + 4) & 63)};
  }
  return {static_cast<std::uint8_t>((at(group + 4) & 15) | (at(group - 4) >> 6) << 4),
          static_cast<std::uint8_t>(at(group + 4) >> 4 | (at(group) >> 6) << 4)};
}

}  // namespace edgedraft::blocks
