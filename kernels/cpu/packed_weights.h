#pragma once

#include "kernels/cpu/int8.h"
#include "kernels/cpu/panels.h"

// Decoding of a panel's blocks to unsigned bytes and float32 scales, per type:
//
//   bytes    quad q of the outputs of a register
//   scale    of half 0 or 1 of the block, if kHalves is 2
//   minimum  likewise, if kHasMinimum; otherwise bytes are 128 too large, which a row's start
//            corrects, except for signed 8-bit weights (int8.h)
//
// A weight is scale * (byte - 128) or scale * byte - minimum. Shifting four to six bits to the top
// of a byte divides the scale by the same power of two, which is exact. If they stay at the bottom
// (kIsLow in int8.h), 128 becomes 8, 16 or 32.
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

static_assert(kPackedBlockInputs == kBlock);

// A block, and the header it shares.
struct BlockPlace {
  const std::byte* header;
  const std::byte* block;
};

EDGEDRAFT_INLINE UintPart line_part(const std::byte* block, std::size_t line, std::size_t part) {
  return load_bytes<UintPart>(block + kPanelHalfBytes + line * kPanelLineBytes +
                              part * sizeof(UintPart));
}
EDGEDRAFT_INLINE Part halves_part(const std::byte* halves, std::size_t part) {
  return load_halves(halves + part * kPartLanes * 2);
}
// v << by, or v >> -by.
template <int kBy>
EDGEDRAFT_INLINE UintPart shifted(UintPart v) {
  if constexpr (kBy >= 0) {
    return v << static_cast<unsigned>(kBy);
  } else {
    return v >> static_cast<unsigned>(-kBy);
  }
}

// Properties of a type that its block products depend on.
template <int kBitsOfWeight, std::size_t kHalvesOfBlock, bool kBlockHasMinimum>
struct BlockForm {
  static constexpr int kBits = kBitsOfWeight;
  static constexpr std::size_t kHalves = kHalvesOfBlock;
  static constexpr bool kHasMinimum = kBlockHasMinimum;
};
template <DType kType, int kBitsOfWeight, std::size_t kHalvesOfBlock, bool kBlockHasMinimum>
struct PackedType : BlockForm<kBitsOfWeight, kHalvesOfBlock, kBlockHasMinimum> {
  static constexpr PackedSizes kSizes = packed_sizes(kType);
  static constexpr bool kIsBytes = kBitsOfWeight == 8;  // nothing to decode
  static constexpr bool kDecodesFirst = false;
};
// Types that share the multiplication code of others: their blocks are always decoded to memory
// first. That saves compiled code and costs a single row half as much time again.
template <DType kType, int kBitsOfWeight, std::size_t kHalvesOfBlock, bool kBlockHasMinimum>
struct DecodedType : BlockForm<kBitsOfWeight, kHalvesOfBlock, kBlockHasMinimum> {
  static constexpr PackedSizes kSizes = packed_sizes(kType);
  static constexpr bool kIsBytes = false;
  static constexpr bool kDecodesFirst = true;
};

struct PackedQ8_0 : PackedType<DType::q8_0, 8, 1, false> {
  static EDGEDRAFT_INLINE Part scale(const BlockPlace& at, std::size_t part, std::size_t) {
    return halves_part(at.block, part);
  }
  template <int q>
  static EDGEDRAFT_INLINE UintPart bytes(const BlockPlace& at, std::size_t part) {
    return line_part(at.block, q, part);
  }
};

// Left shift of a weight of four to six bits in its byte.
template <int kBits>
inline constexpr int kRise = kIsLow<kBits> ? 0 : 8 - kBits;

template <int q>
EDGEDRAFT_INLINE UintPart nibbles(const BlockPlace& at, std::size_t part) {
  constexpr std::uint32_t kMask = 0x0F0F0F0Fu << kRise<4>;
  return shifted<kRise<4> - (q < 4 ? 0 : 4)>(line_part(at.block, q % 4, part)) & kMask;
}
inline constexpr float kNibbleUnit = 1.0f / (1 << kRise<4>);

struct PackedQ4_0 : PackedType<DType::q4_0, 4, 1, false> {
  static EDGEDRAFT_INLINE Part scale(const BlockPlace& at, std::size_t part, std::size_t) {
    return halves_part(at.block, part) * all_part(kNibbleUnit);
  }
  template <int q>
  static EDGEDRAFT_INLINE UintPart bytes(const BlockPlace& at, std::size_t part) {
    return nibbles<q>(at, part);
  }
};

// With the fifth bits of the following line.
template <int q, int kUp>
EDGEDRAFT_INLINE UintPart fives(const BlockPlace& at, std::size_t part) {
  const UintPart four = shifted<kUp - (q < 4 ? 0 : 4)>(line_part(at.block, q % 4, part));
  const UintPart fifth = shifted<kUp + 4 - q>(line_part(at.block, 4, part));
  return (four & 0x0F0F0F0Fu << kUp) | (fifth & 0x10101010u << kUp);
}

struct PackedQ5_0 : PackedType<DType::q5_0, 5, 1, false> {
  static EDGEDRAFT_INLINE Part scale(const BlockPlace& at, std::size_t part, std::size_t) {
    return halves_part(at.block, part) * all_part(1.0f / (1 << kRise<kBits>));
  }
  template <int q>
  static EDGEDRAFT_INLINE UintPart bytes(const BlockPlace& at, std::size_t part) {
    return fives<q, kRise<kBits>>(at, part);
  }
};

// And q4_1.
struct PackedQ5_1 : PackedType<DType::q5_1, 5, 1, true> {
  static EDGEDRAFT_INLINE Part scale(const BlockPlace& at, std::size_t part, std::size_t) {
    return halves_part(at.block, part);
  }
  static EDGEDRAFT_INLINE Part minimum(const BlockPlace& at, std::size_t part, std::size_t) {
    return halves_part(at.block + kPanelHalfBytes + 5 * kPanelLineBytes, part);
  }
  template <int q>
  static EDGEDRAFT_INLINE UintPart bytes(const BlockPlace& at, std::size_t part) {
    return fives<q, 0>(at, part);
  }
};

// Scales and minima of q4_k and q5_k.
EDGEDRAFT_INLINE Part group_scale(const BlockPlace& at, std::size_t part) {
  return to_floats(load_uint8s(at.block + part * kPartLanes)) * halves_part(at.header, part);
}
EDGEDRAFT_INLINE Part group_minimum(const BlockPlace& at, std::size_t part) {
  return to_floats(load_uint8s(at.block + kPanelOutputs + part * kPartLanes)) *
         halves_part(at.header + kPanelHalfBytes, part);
}

struct PackedQ4_K : PackedType<DType::q4_k, 4, 1, true> {
  static EDGEDRAFT_INLINE Part scale(const BlockPlace& at, std::size_t part, std::size_t) {
    return group_scale(at, part) * all_part(kNibbleUnit);
  }
  static EDGEDRAFT_INLINE Part minimum(const BlockPlace& at, std::size_t part, std::size_t) {
    return group_minimum(at, part);
  }
  template <int q>
  static EDGEDRAFT_INLINE UintPart bytes(const BlockPlace& at, std::size_t part) {
    return nibbles<q>(at, part);
  }
};

struct PackedQ5_K : PackedType<DType::q5_k, 5, 1, true> {
  static EDGEDRAFT_INLINE Part scale(const BlockPlace& at, std::size_t part, std::size_t) {
    return group_scale(at, part);
  }
  static EDGEDRAFT_INLINE Part minimum(const BlockPlace& at, std::size_t part, std::size_t) {
    return group_minimum(at, part);
  }
  template <int q>
  static EDGEDRAFT_INLINE UintPart bytes(const BlockPlace& at, std::size_t part) {
    return fives<q, 0>(at, part);
  }
};

struct PackedQ6_K : PackedType<DType::q6_k, 6, 2, false> {
  static EDGEDRAFT_INLINE Part scale(const BlockPlace& at, std::size_t part, std::size_t half) {
    return load_int8s(at.block + half * kPanelOutputs + part * kPartLanes) *
           (halves_part(at.header, part) * all_part(1.0f / (1 << kRise<kBits>)));
  }
  template <int q>
  static EDGEDRAFT_INLINE UintPart bytes(const BlockPlace& at, std::size_t part) {
    constexpr int kUp = kRise<kBits>;
    const UintPart four =
        shifted<kUp - (q < 4 ? 0 : 4)>(line_part(at.block, q % 4, part)) & 0x0F0F0F0Fu << kUp;
    return four | (shifted<4 + kUp - q % 4 * 2>(line_part(at.block, 4 + q / 4, part)) & 0x30303030u
                                                                                            << kUp);
  }
};

// Four bits are the fewest of a form.
struct PackedQ2_K : DecodedType<DType::q2_k, 4, 2, true> {
  static EDGEDRAFT_INLINE Part scale(const BlockPlace& at, std::size_t part, std::size_t half) {
    return to_floats(group(at, part, half) & 15u) * halves_part(at.header, part);
  }
  static EDGEDRAFT_INLINE Part minimum(const BlockPlace& at, std::size_t part, std::size_t half) {
    return to_floats(group(at, part, half) >> 4u) * halves_part(at.header + kPanelHalfBytes, part);
  }
  template <int q>
  static EDGEDRAFT_INLINE UintPart bytes(const BlockPlace& at, std::size_t part) {
    return shifted<-(q % 4) * 2>(line_part(at.block, q / 4, part)) & 0x03030303u;
  }

 private:
  static EDGEDRAFT_INLINE UintPart group(const BlockPlace& at, std::size_t part, std::size_t half) {
    return load_uint8s(at.block + half * kPanelOutputs + part * kPartLanes);
  }
};

// Coded types: every byte becomes its code's value, as the instruction set stores 8-bit weights.
template <DType kType, std::size_t kHalvesOfBlock>
struct PackedCodes : DecodedType<kType, 8, kHalvesOfBlock, false> {
  static EDGEDRAFT_INLINE Part scale(const BlockPlace& at, std::size_t part, std::size_t half) {
    if constexpr (kType == DType::mxfp4) {
      return load_bfloats(at.block + part * kPartLanes * 2);
    } else if constexpr (traits(kType).block_count == kPackedBlockInputs) {
      return halves_part(at.block, part);
    } else {
      return load_int8s(at.block + half * kPanelOutputs + part * kPartLanes) *
             (halves_part(at.header, part) * all_part(kUnit));
    }
  }
  template <int q>
  static EDGEDRAFT_INLINE UintPart bytes(const BlockPlace& at, std::size_t part) {
    const UintPart codes =
        shifted < q < 4 ? 0 : -4 > (line_part(at.block, q % 4, part)) & 0x0F0F0F0Fu;
    return look_up(kValues.bytes, codes);
  }

 private:
  struct Values {
    std::uint8_t bytes[16];
  };
  static constexpr Values values() {
    Values all{};
    for (std::size_t i = 0; i < 16; ++i) {
      const int value = code_table(kType).value[i] + (kHasSigns<8> ? 0 : 128);
      all.bytes[i] = static_cast<std::uint8_t>(value);
    }
    return all;
  }
  static constexpr Values kValues = values();
  static constexpr float kUnit = code_table(kType).unit;
};

// Types with equal decoded blocks share multiplication code.
template <class W>
using FormOf = BlockForm<kIsLow<W::kBits> ? W::kBits : 8, W::kHalves, W::kHasMinimum>;

// A block decoded for several tiles.
template <class Form>
struct alignas(64) DecodedBlock {
  float scales[Form::kHalves][kPanelOutputs];
  float minima[Form::kHasMinimum ? Form::kHalves : 0][kPanelOutputs];
  std::byte lines[8 * kPanelLineBytes];
};

// --- sources of a tile's weights, block by block ---

template <class Weights>
struct Packed {
  using W = Weights;
  BlockPlace at;
  std::size_t index = 0;  // among the blocks of a header

  static EDGEDRAFT_INLINE Packed from(const std::byte* bytes) {
    return {{bytes, bytes + W::kSizes.header_bytes}};
  }
  EDGEDRAFT_INLINE Part scale(std::size_t part, std::size_t half) const {
    return W::scale(at, part, half);
  }
  EDGEDRAFT_INLINE Part minimum(std::size_t part, std::size_t half) const {
    return W::minimum(at, part, half);
  }
  template <int q>
  EDGEDRAFT_INLINE UintPart bytes(std::size_t part) const {
    return W::template bytes<q>(at, part);
  }
  EDGEDRAFT_INLINE void next() {
    at.block += W::kSizes.block_bytes;
    if constexpr (W::kSizes.header_bytes > 0) {
      if (++index == W::kSizes.blocks) {
        index = 0;
        at.header = at.block;
        at.block += W::kSizes.header_bytes;
      }
    }
  }
};

template <class Form>
struct Decoded {
  using W = Form;
  const DecodedBlock<Form>* block;

  EDGEDRAFT_INLINE Part scale(std::size_t part, std::size_t half) const {
    return load_part(block->scales[half] + part * kPartLanes);
  }
  EDGEDRAFT_INLINE Part minimum(std::size_t part, std::size_t half) const {
    return load_part(block->minima[half] + part * kPartLanes);
  }
  template <int q>
  EDGEDRAFT_INLINE UintPart bytes(std::size_t part) const {
    return load_bytes<UintPart>(block->lines + q * kPanelLineBytes + part * sizeof(UintPart));
  }
  EDGEDRAFT_INLINE void next() { ++block; }
};

template <class W, int q = 0>
EDGEDRAFT_INLINE void decode_lines(const Packed<W>& from, std::size_t part, std::byte* lines) {
  if constexpr (q < 8) {
    const UintPart bytes = from.template bytes<q>(part);
    std::memcpy(lines + q * kPanelLineBytes + part * sizeof bytes, &bytes, sizeof bytes);
    decode_lines<W, q + 1>(from, part, lines);
  }
}
template <class W>
EDGEDRAFT_INLINE void decode_block(const Packed<W>& from, DecodedBlock<FormOf<W>>& to) {
  for (std::size_t part = 0; part < kPanelParts; ++part) {
    for (std::size_t half = 0; half < W::kHalves; ++half) {
      store_part(to.scales[half] + part * kPartLanes, from.scale(part, half));
      if constexpr (W::kHasMinimum) {
        store_part(to.minima[half] + part * kPartLanes, from.minimum(part, half));
      }
    }
    decode_lines<W>(from, part, to.lines);
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
