#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/ops.h"

// Weight layout for matmuls: a copy of the file's weights in kernel order, made once at load.
//
// A panel is 32 outputs, zero-padded after the last. A thread reads one stream of whole cache
// lines, barely larger than the file's data, and no sum crosses lanes.
//
// A panel of floats has the 32 elements of each input in turn. f32 and f16 are in output order.
// bf16 is in the order 0, 16, 1, 17, ..., so that a shift and a mask split words into two
// registers.
//
// A panel of a quantized type, for matmuls with int8 activations, is a sequence of blocks of 32
// inputs: first the scales, then lines. A line has four bytes for each of the 32 outputs, as the
// int8 dot product instructions take them.
//
//         scales of a block         lines of a block
//   q8_0  32 x f16                  8: line q has inputs 4q.. as int8 + 128, since those
//                                   instructions multiply unsigned by signed; as int8 if
//                                   the instruction set handles the signs (int8.h)
//   q4_0  32 x f16                  4 of nibbles: line q has inputs 4q.. in the low ones,
//                                   16+4q.. in the high ones
//   q5_0  32 x f16                  4 of nibbles, 1 of fifth bits: bit q belongs to input 4q..
//   q5_1  32 x f16                  as q5_0, followed by 32 x f16: minima
//   q4_1                            as q5_1, without fifth bits
//   q4_k  32 x u8, 32 x u8 minima   4 of nibbles
//   q5_k  as q4_k                   as q5_0
//   q6_k  2 x 32 x i8, for halves   4 of nibbles, 2 of top bits: bits 2i, 2i+1 of the line t to
//                                   input 4(4t + i)..
//   q2_k  2 x 32 x u8, for halves   2 of twos, as the top bits of q6_k
//         (scale low, minimum high)
//   coded 32 x 16 bits              4 of nibbles: codes (element_type.h)
//     of 256: 2 x 32 x i8
//
// Before each 8 blocks of a type with blocks of 256 are their shared factors: 32 x f16, and in
// q2_k, q4_k and q5_k another 32 for the minima.
namespace edgedraft::cpu {

inline constexpr std::size_t kPanelOutputs = 32;
inline constexpr std::size_t kPackedBlockInputs = 32;
inline constexpr std::size_t kPanelHalfBytes = 2 * kPanelOutputs;  // one float16 per output
inline constexpr std::size_t kPanelLineBytes = 4 * kPanelOutputs;

// Sizes of a run of blocks that share a header.
struct PackedSizes {
  std::size_t blocks;  // blocks of 32 inputs per header; 0: the type has no blocks
  std::size_t header_bytes;
  std::size_t block_bytes;

  constexpr std::size_t bytes(std::size_t block_count) const {
    return blocks == 0 ? 0 : block_count / blocks * (header_bytes + blocks * block_bytes);
  }
};
constexpr PackedSizes packed_sizes(DType type) {
  switch (type) {
    case DType::q8_0:
      return {1, 0, kPanelHalfBytes + 8 * kPanelLineBytes};
    case DType::q4_0:
      return {1, 0, kPanelHalfBytes + 4 * kPanelLineBytes};
    case DType::q4_1:
    case DType::q5_1:
      return {1, 0, 2 * kPanelHalfBytes + 5 * kPanelLineBytes};
    case DType::q5_0:
      return {1, 0, kPanelHalfBytes + 5 * kPanelLineBytes};
    case DType::q4_k:
      return {8, 2 * kPanelHalfBytes, 2 * kPanelOutputs + 4 * kPanelLineBytes};
    case DType::q5_k:
      return {8, 2 * kPanelHalfBytes, 2 * kPanelOutputs + 5 * kPanelLineBytes};
    case DType::q6_k:
      return {8, kPanelHalfBytes, 2 * kPanelOutputs + 6 * kPanelLineBytes};
    case DType::q2_k:
      return {8, 2 * kPanelHalfBytes, 2 * kPanelOutputs + 2 * kPanelLineBytes};
    case DType::iq4_nl:
    case DType::mxfp4:
      return {1, 0, kPanelHalfBytes + 4 * kPanelLineBytes};
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return {0, 0, 0};
    default:  // coded, of 256
      return {8, kPanelHalfBytes, 2 * kPanelOutputs + 4 * kPanelLineBytes};
  }
}

struct PackArgs {
  DType type;
  const std::byte* weight;  // [outputs, inputs] as in the file; coded types in coded layout
  std::size_t outputs;
  std::size_t inputs;
  bool signed_bytes;  // per instruction set
  std::byte* panels;  // packed_bytes
};
constexpr std::size_t panel_count(std::size_t outputs) {
  return (outputs + kPanelOutputs - 1) / kPanelOutputs;
}
constexpr std::size_t packed_bytes(DType type, std::size_t outputs, std::size_t inputs) {
  const std::size_t panel_bytes = is_float(type)
                                      ? inputs * kPanelOutputs * traits(type).block_bytes
                                      : packed_sizes(type).bytes(inputs / kPackedBlockInputs);
  return panel_count(outputs) * panel_bytes;
}

// Packs panels first..last-1.
void pack_panels(const PackArgs& args, std::size_t first, std::size_t last);

}  // namespace edgedraft::cpu
