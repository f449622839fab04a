#pragma once

#include <cstddef>

#include "shared/base/bytes.h"
#include "shared/tensor/element_type.h"

// Coded types: every element is one of 16 values (code_table) times a scale. Files store them in
// nine layouts, some through grids. Backends work on one layout per block size, the coded layout:
//
//   256 elements   d f16 | 16 scales i8, one per 16 | 8 x 16 bytes of codes, per 32 elements:
//                  0..15 in the low, 16..31 in the high halves    x = unit d scale value[code]
//   32 elements    scale f16 (mxfp4: bf16) | 16 bytes of codes    x = scale value[code]
//
// It has 4.56 or 4.5 bits per element. File layouts, little-endian:
//
//   q3_k      32 bytes of third bits, as the fifths of q5_k | 64 bytes of twos, as in q2_k
//             (blocks.h) | 12 bytes: 16 scales of 6 bits, plus 32 | d f16
//   iq4_nl    scale f16 | 16 bytes of codes
//   iq4_xs    d f16 | upper two bits of 8 scales, u16 | lower four | 8 x 16 bytes of codes. Scales
//             are per 32, plus 32
//   iq3_s     d f16 | 64 grid points | their ninth bits | 32 bytes of signs | 8 scales of 4 bits
//   iq3_xxs   d f16 | 64 grid points | per 32 elements 4 x 7 bits of signs, 4 bits of scale
//   iq2_xxs   d f16 | per 32 elements 4 grid points, 4 x 7 bits of signs, 4 bits of scale
//   iq2_xs    d f16 | 32 x (grid point of 9 bits, signs of 7 bits) | 16 scales of 4 bits
//   iq2_s     d f16 | 32 grid points | 32 bytes of signs | their bits 8, 9 | 16 scales of 4 bits
//   mxfp4     exponent of the scale, plus 128 | 16 bytes of codes
//
// The eighth of seven signs makes their parity even. Scales of the IQ2 and IQ3 types are 2 s + 1.
//
// Source    the ggml project's reference implementation; OCP Microscaling Formats (MXFP4)
namespace edgedraft::blocks {

// Recodes a block of a file: traits(type).block_bytes to coded_block_bytes(type).
void code_block(DType type, const std::byte* from, std::byte* to);

// Decodes a block in coded layout. All products are exact.
void decode_coded(DType type, const std::byte* coded, float* to);

}  // namespace edgedraft::blocks

namespace edgedraft {

// Bytes of whole blocks of `bytes` in coded layout. Requires is_coded(type).
Bytes coded(DType type, ByteView bytes);

}  // namespace edgedraft
