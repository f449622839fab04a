#include <cstring>

#include "kernels/cpu/packed.h"

// Each quantized type unpacks the blocks of one output's row, four inputs per word; their layouts
// are in shared/tensor/blocks.h and coded_blocks.h.
namespace edgedraft::cpu {
namespace {

constexpr std::uint32_t kNibbles = 0x0F0F0F0Fu;

std::uint32_t word(const std::byte* from) {
  std::uint32_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Destination of an output's bytes of a block.
struct Place {
  std::byte* header;  // header of the panel and its block
  std::byte* block;
  std::size_t output;
  bool signed_bytes;

  void put_half(std::byte* array, const std::byte* half) const {
    std::memcpy(array + 2 * output, half, 2);
  }
  void put_byte(std::size_t array, unsigned value) const {
    block[array * kPanelOutputs + output] = static_cast<std::byte>(value);
  }
  // Lines start after 64 bytes of scales.
  std::byte* line(std::size_t index) const {
    return block + kPanelHalfBytes + index * kPanelLineBytes;
  }
  void put_line(std::size_t index, std::uint32_t value) const {
    std::memcpy(line(index) + 4 * output, &value, sizeof value);
  }
};

struct Q8_0 {
  static constexpr DType kType = DType::q8_0;
  static void pack(const std::byte* from, std::size_t, const Place& to) {
    to.put_half(to.block, from);
    const std::uint32_t flipped = to.signed_bytes ? 0 : 0x80808080u;
    for (std::size_t q = 0; q < 8; ++q) to.put_line(q, word(from + 2 + 4 * q) ^ flipped);
  }
};

// The 16 bytes of a small block, whose halves already match the lines' halves.
void put_fours(const std::byte* from, const Place& to) {
  for (std::size_t q = 0; q < 4; ++q) to.put_line(q, word(from + 4 * q));
}

struct Q4_0 {
  static constexpr DType kType = DType::q4_0;
  static void pack(const std::byte* from, std::size_t, const Place& to) {
    to.put_half(to.block, from);
    put_fours(from + 2, to);
  }
};

// Five bits each: the fifth bits together, before the other bytes.
void put_fives(const std::byte* from, const Place& to) {
  std::uint32_t fifths = 0;
  for (std::size_t q = 0; q < 8; ++q) {
    const auto bits = static_cast<std::uint32_t>(from[q / 2]) >> q % 2 * 4;
    for (std::size_t i = 0; i < 4; ++i) fifths |= (bits >> i & 1u) << (8 * i + q);
  }
  to.put_line(4, fifths);
  put_fours(from + 4, to);
}

struct Q5_0 {
  static constexpr DType kType = DType::q5_0;
  static void pack(const std::byte* from, std::size_t, const Place& to) {
    to.put_half(to.block, from);
    put_fives(from + 2, to);
  }
};

// A minimum is subtracted, so it is the negated offset.
void put_scale_and_offset(const std::byte* from, const Place& to) {
  const std::byte minimum[] = {from[2], from[3] ^ std::byte{0x80}};
  to.put_half(to.block, from);
  to.put_half(to.line(5), minimum);
}

struct Q5_1 {
  static constexpr DType kType = DType::q5_1;
  static void pack(const std::byte* from, std::size_t, const Place& to) {
    put_scale_and_offset(from, to);
    put_fives(from + 4, to);
  }
};

struct Q4_1 {
  static constexpr DType kType = DType::q4_1;
  static void pack(const std::byte* from, std::size_t, const Place& to) {
    put_scale_and_offset(from, to);
    put_fours(from + 4, to);
    to.put_line(4, 0);
  }
};

// Nibbles of 32 bytes: input 4q.. in the low halves, 16+4q.. in the high ones.
void put_nibbles(const std::byte* from, unsigned shift, const Place& to) {
  for (std::size_t q = 0; q < 4; ++q) {
    const std::uint32_t low = word(from + 4 * q) >> shift & kNibbles;
    const std::uint32_t high = word(from + 16 + 4 * q) >> shift & kNibbles;
    to.put_line(q, low | high << 4);
  }
}

// The common start of q4_k and q5_k.
void put_scale_and_minimum(const std::byte* from, std::size_t block, const Place& to) {
  to.put_half(to.header, from);
  to.put_half(to.header + kPanelHalfBytes, from + 2);
  const auto at = [from](std::size_t i) { return static_cast<unsigned>(from[4 + i]); };
  if (block < 4) {
    to.put_byte(0, at(block) & 63u);
    to.put_byte(1, at(block + 4) & 63u);
  } else {
    to.put_byte(0, (at(block + 4) & 15u) | (at(block - 4) >> 6) << 4);
    to.put_byte(1, at(block + 4) >> 4 | (at(block) >> 6) << 4);
  }
}

struct Q4_K {
  static constexpr DType kType = DType::q4_k;
  static void pack(const std::byte* from, std::size_t block, const Place& to) {
    put_scale_and_minimum(from, block, to);
    put_nibbles(from + 16 + block / 2 * 32, static_cast<unsigned>(block % 2 * 4), to);
  }
};

struct Q5_K {
  static constexpr DType kType = DType::q5_k;
  static void pack(const std::byte* from, std::size_t block, const Place& to) {
    put_scale_and_minimum(from, block, to);
    put_nibbles(from + 48 + block / 2 * 32, static_cast<unsigned>(block % 2 * 4), to);
    std::uint32_t fifths = 0;
    for (std::size_t q = 0; q < 8; ++q) {
      fifths |= (word(from + 16 + 4 * q) >> block & 0x01010101u) << q;
    }
    to.put_line(4, fifths);
  }
};

// Bits `shift`, `shift` + 1 of 32 bytes, into two lines.
void put_twos(const std::byte* from, std::size_t shift, std::size_t first_line, const Place& to) {
  for (std::size_t t = 0; t < 2; ++t) {
    std::uint32_t line = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      line |= (word(from + 16 * t + 4 * i) >> shift & 0x03030303u) << 2 * i;
    }
    to.put_line(first_line + t, line);
  }
}

struct Q6_K {
  static constexpr DType kType = DType::q6_k;
  static void pack(const std::byte* from, std::size_t block, const Place& to) {
    const std::size_t half = block / 4;
    const std::size_t run = block % 4;
    to.put_half(to.header, from + 208);
    to.put_byte(0, static_cast<unsigned>(from[192 + 2 * block]));
    to.put_byte(1, static_cast<unsigned>(from[193 + 2 * block]));
    put_nibbles(from + half * 64 + run % 2 * 32, static_cast<unsigned>(run / 2 * 4), to);
    put_twos(from + 128 + half * 32, 2 * run, 4, to);
  }
};

struct Q2_K {
  static constexpr DType kType = DType::q2_k;
  static void pack(const std::byte* from, std::size_t block, const Place& to) {
    to.put_half(to.header, from + 80);
    to.put_half(to.header + kPanelHalfBytes, from + 82);
    to.put_byte(0, static_cast<unsigned>(from[2 * block]));
    to.put_byte(1, static_cast<unsigned>(from[2 * block + 1]));
    put_twos(from + 16 + block / 4 * 32, block % 4 * 2, 0, to);
  }
};

// Coded types, of 256 and of 32 elements; all types of a size have one layout.
struct LargeCoded {
  static constexpr DType kType = DType::iq4_xs;
  static void pack(const std::byte* from, std::size_t block, const Place& to) {
    to.put_half(to.header, from);
    to.put_byte(0, static_cast<unsigned>(from[2 + 2 * block]));
    to.put_byte(1, static_cast<unsigned>(from[3 + 2 * block]));
    put_fours(from + 18 + 16 * block, to);
  }
};
struct SmallCoded {
  static constexpr DType kType = DType::iq4_nl;
  static void pack(const std::byte* from, std::size_t, const Place& to) {
    to.put_half(to.block, from);
    put_fours(from + 2, to);
  }
};

template <class Q>
void pack_panel(const PackArgs& a, std::size_t panel) {
  constexpr PackedSizes kSizes = packed_sizes(Q::kType);
  constexpr std::size_t kFileBytes =
      is_coded(Q::kType) ? coded_block_bytes(Q::kType) : traits(Q::kType).block_bytes;
  const std::size_t blocks = a.inputs / kPackedBlockInputs;
  const std::size_t row_bytes = blocks / kSizes.blocks * kFileBytes;
  const std::size_t first = panel * kPanelOutputs;
  const std::size_t left = a.outputs - first;
  const std::size_t count = left < kPanelOutputs ? left : kPanelOutputs;
  std::byte* to = a.panels + panel * kSizes.bytes(blocks);
  if (count < kPanelOutputs) std::memset(to, 0, kSizes.bytes(blocks));
  for (std::size_t b = 0; b < blocks; b += kSizes.blocks) {
    std::byte* header = to;
    to += kSizes.header_bytes;
    for (std::size_t i = 0; i < kSizes.blocks; ++i, to += kSizes.block_bytes) {
      for (std::size_t o = 0; o < count; ++o) {
        Q::pack(a.weight + (first + o) * row_bytes + b / kSizes.blocks * kFileBytes, i,
                {header, to, o, a.signed_bytes});
      }
    }
  }
}

// An output's column of a panel of floats.
template <class Number, bool kPairs>
void pack_float_panel(const PackArgs& a, std::size_t panel) {
  // Inputs per pass, so that the scattered destination lines stay in the cache.
  constexpr std::size_t kInputs = 64;
  const std::size_t first = panel * kPanelOutputs;
  const std::size_t left = a.outputs - first;
  const std::size_t count = left < kPanelOutputs ? left : kPanelOutputs;
  const std::byte* from = a.weight + first * a.inputs * sizeof(Number);
  std::byte* to = a.panels + first * a.inputs * sizeof(Number);
  if (count < kPanelOutputs) std::memset(to, 0, kPanelOutputs * a.inputs * sizeof(Number));
  for (std::size_t begin = 0; begin < a.inputs; begin += kInputs) {
    const std::size_t end = begin + kInputs < a.inputs ? begin + kInputs : a.inputs;
    for (std::size_t o = 0; o < count; ++o) {
      const std::size_t column = kPairs ? o % 16 * 2 + o / 16 : o;
      for (std::size_t k = begin; k < end; ++k) {
        std::memcpy(to + (k * kPanelOutputs + column) * sizeof(Number),
                    from + (o * a.inputs + k) * sizeof(Number), sizeof(Number));
      }
    }
  }
}

}  // namespace

void pack_panels(const PackArgs& a, std::size_t first, std::size_t last) {
  for (std::size_t panel = first; panel < last; ++panel) {
    switch (a.type) {
      case DType::q8_0:
        pack_panel<Q8_0>(a, panel);
        break;
      case DType::q4_0:
        pack_panel<Q4_0>(a, panel);
        break;
      case DType::q4_1:
        pack_panel<Q4_1>(a, panel);
        break;
      case DType::q5_0:
        pack_panel<Q5_0>(a, panel);
        break;
      case DType::q5_1:
        pack_panel<Q5_1>(a, panel);
        break;
      case DType::q4_k:
        pack_panel<Q4_K>(a, panel);
        break;
      case DType::q5_k:
        pack_panel<Q5_K>(a, panel);
        break;
      case DType::q6_k:
        pack_panel<Q6_K>(a, panel);
        break;
      case DType::q2_k:
        pack_panel<Q2_K>(a, panel);
        break;
      case DType::iq4_nl:
      case DType::mxfp4:
        pack_panel<SmallCoded>(a, panel);
        break;
      case DType::f32:
        pack_float_panel<std::uint32_t, false>(a, panel);
        break;
      case DType::f16:
        pack_float_panel<std::uint16_t, false>(a, panel);
        break;
      case DType::bf16:
        pack_float_panel<std::uint16_t, true>(a, panel);
        break;
      default:
        pack_panel<LargeCoded>(a, panel);
        break;
    }
  }
}

}  // namespace edgedraft::cpu
