#pragma once

#include "kernels/cpu/amx.h"
#include "kernels/cpu/int8_tile.h"

// The sums of int8_tile.h on the tile registers of AMX: the same numbers in the same order.
//
// One instruction multiplies up to 16 rows by 16 outputs over the 32 inputs of a block, and needs
// none of the ports that vector instructions use. These are left to convert, scale and add the
// sums, which takes as long; so the two are interleaved: while the dots of a unit are computed,
// those of the unit before it are added up. A unit is a register of outputs times the blocks that
// share a scale of the activations.
#if defined(__AMX_INT8__)
#define EDGEDRAFT_TILES 1

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

// A half of a block is multiplied as a block whose other half is zero, so that tiles have one
// shape.
template <class W>
inline constexpr std::size_t kUnitDots = kBlocksAScale* W::kHalves;

// A block of type W as tiles want it: signed bytes, or unsigned ones below a minimum.
template <class W>
struct alignas(kCacheLineBytes) TileBlock {
  static constexpr std::size_t kLines = W::kHalves == 1 ? 8 : 12;

  float scales[W::kHalves][kPanelOutputs];
  float minima[W::kHasMinimum ? kPanelOutputs : 0];  // / 128, for the activations' starts
  std::byte lines[kLines * kPanelLineBytes];         // halves: four lines, four of zeros, four

  // The eight lines in which half `half` is not zero.
  const std::byte* half_lines(std::size_t half) const { return lines + half * 4 * kPanelLineBytes; }
};

// The dots of two units: dots[unit % 2][block * halves + half][row][output].
template <class W>
struct alignas(kCacheLineBytes) UnitDots {
  std::int32_t dots[2][kUnitDots<W>][kTileRowsMax][kPartLanes];
};

template <class W, int q = 0>
EDGEDRAFT_INLINE void decode_tile_lines(const Packed<W>& from, std::size_t part, std::byte* lines) {
  if constexpr (q < 8) {
    UintPart bytes = from.template bytes<q>(part);
    if constexpr (!W::kHasMinimum) bytes ^= 0x80808080u;
    const std::size_t line = W::kHalves == 2 && q >= 4 ? q + 4 : q;
    std::memcpy(lines + line * kPanelLineBytes + part * sizeof bytes, &bytes, sizeof bytes);
    decode_tile_lines<W, q + 1>(from, part, lines);
  }
}
template <class W>
EDGEDRAFT_INLINE void decode_tile_block(const Packed<W>& from, TileBlock<W>& to) {
  for (std::size_t part = 0; part < kPanelParts; ++part) {
    for (std::size_t half = 0; half < W::kHalves; ++half) {
      store_part(to.scales[half] + part * kPartLanes, from.scale(part, half));
    }
    if constexpr (W::kHasMinimum) {
      store_part(to.minima + part * kPartLanes, from.minimum(part) * all_part(1.0f / 128));
    }
    decode_tile_lines<W>(from, part, to.lines);
  }
  if constexpr (W::kHalves == 2) {
    std::memset(to.lines + 4 * kPanelLineBytes, 0, 4 * kPanelLineBytes);
  }
}

// What will be wanted soon (int8_tile.h), asked for in `asks` pieces at each turn.
struct TileAhead {
  const std::byte* from;
  std::size_t distance;  // between two places
  std::size_t left;      // lines at each of them
  std::size_t asks;

  EDGEDRAFT_INLINE void ask() {
    for (std::size_t i = 0; i < asks && left > 0; ++i, --left, from += kCacheLineBytes) {
      __builtin_prefetch(from, 0, 2);
      __builtin_prefetch(from + distance, 0, 2);
    }
  }
};

// Tiles 0 to 3: activations, a block each. 4, 5: weights. 6, 7: dots.
inline TileShapes tile_shapes(std::size_t rows) {
  TileShapes shapes;
  for (std::size_t tile = 0; tile < 4; ++tile) shapes.set(tile, rows, kBlock);
  for (std::size_t tile = 4; tile < 6; ++tile) shapes.set(tile, kBlock / 4, sizeof(Part));
  for (std::size_t tile = 6; tile < 8; ++tile) shapes.set(tile, rows, sizeof(Part));
  return shapes;
}
// Of tiles that are as equal as can be and hold `rows` rows.
constexpr std::size_t tile_rows_of(std::size_t rows) {
  const std::size_t tiles = (rows + kTileRowsMax - 1) / kTileRowsMax;
  return (rows + tiles - 1) / tiles;
}

// Rows of activations, or of their scales.
struct TileActivations {
  const std::byte* block;
  const std::byte* scale;
  std::size_t stride;
};

// `rows` rows of activations through the blocks of a chunk, of which a multiple of kBlocksAScale is
// used. The first `skip` rows have been through it.
template <class W>
class TileRows {
 public:
  TileRows(const TileBlock<W>* blocks, std::size_t block_count, const TileActivations& x,
           std::size_t rows, std::size_t skip, float* sums, UnitDots<W>& dots)
      : blocks_(blocks),
        units_(block_count / kBlocksAScale * kPanelParts),
        x_(x),
        rows_(rows),
        skip_(skip),
        sums_(sums),
        dots_(dots) {}

  EDGEDRAFT_INLINE void run(TileAhead& ahead) {
    run_unit<true, false>(0, ahead);
    for (std::size_t unit = 1; unit < units_; ++unit) run_unit<true, true>(unit, ahead);
    run_unit<false, true>(units_, ahead);
  }

 private:
  static constexpr std::size_t kDots = kUnitDots<W>;

  struct Scaling {
    Part scale[kDots];
    Part minimum[W::kHasMinimum ? kBlocksAScale : 1];
  };

  // The dots of unit `unit`, the sums of the unit before it.
  template <bool kDot, bool kAdd>
  EDGEDRAFT_INLINE void run_unit(std::size_t unit, TileAhead& ahead) {
    const std::size_t group = unit / kPanelParts;
    const std::size_t part = unit % kPanelParts;
    if constexpr (kDot) {
      if (part == 0)
        load_activations<0>(x_.block + group * kBlocksAScale * ActivationRow::kBlockBytes +
                            kStartBytes);
    }
    Scaling scaling;
    if constexpr (kAdd) scaling = scaling_of(unit - 1);
    run_step<kDot, kAdd, 0>(unit, blocks_ + group * kBlocksAScale, part, scaling, ahead);
  }

  template <bool kDot, bool kAdd, std::size_t kStep>
  EDGEDRAFT_INLINE void run_step(std::size_t unit, const TileBlock<W>* blocks, std::size_t part,
                                 const Scaling& scaling, TileAhead& ahead) {
    if constexpr (kStep < kDots) {
      if constexpr (kDot) {
        const std::byte* lines = blocks[kStep / W::kHalves].half_lines(kStep % W::kHalves);
        multiply<kStep>(lines + part * sizeof(Part), dots_.dots[unit % 2][kStep][0]);
        ahead.ask();
      }
      if constexpr (kAdd) {
        const std::size_t left = rows_ - skip_;
        add_rows(unit - 1, scaling, skip_ + kStep * left / kDots,
                 skip_ + (kStep + 1) * left / kDots);
      }
      run_step<kDot, kAdd, kStep + 1>(unit, blocks, part, scaling, ahead);
    }
  }

  template <std::size_t kBlockIndex>
  EDGEDRAFT_INLINE void load_activations(const std::byte* from) {
    if constexpr (kBlockIndex == 0) _tile_loadd(0, from, x_.stride);
    if constexpr (kBlockIndex == 1) _tile_loadd(1, from, x_.stride);
    if constexpr (kBlockIndex == 2) _tile_loadd(2, from, x_.stride);
    if constexpr (kBlockIndex == 3) _tile_loadd(3, from, x_.stride);
    if constexpr (kBlockIndex < 3) {
      load_activations<kBlockIndex + 1>(from + ActivationRow::kBlockBytes);
    }
  }

#define EDGEDRAFT_MULTIPLY(dots_tile, activations, weights) \
  do {                                                      \
    if constexpr (W::kHasMinimum) {                         \
      _tile_dpbsud(dots_tile, activations, weights);        \
    } else {                                                \
      _tile_dpbssd(dots_tile, activations, weights);        \
    }                                                       \
  } while (false)

  template <std::size_t kStep>
  EDGEDRAFT_INLINE void multiply(const std::byte* lines, std::int32_t* dots) {
    constexpr std::size_t kBlockIndex = kStep / W::kHalves;
    if constexpr (kStep % 2 == 0) {
      _tile_zero(6);
      _tile_loadd(4, lines, kPanelLineBytes);
      if constexpr (kBlockIndex == 0) EDGEDRAFT_MULTIPLY(6, 0, 4);
      if constexpr (kBlockIndex == 1) EDGEDRAFT_MULTIPLY(6, 1, 4);
      if constexpr (kBlockIndex == 2) EDGEDRAFT_MULTIPLY(6, 2, 4);
      if constexpr (kBlockIndex == 3) EDGEDRAFT_MULTIPLY(6, 3, 4);
      _tile_stored(6, dots, sizeof(Part));
    } else {
      _tile_zero(7);
      _tile_loadd(5, lines, kPanelLineBytes);
      if constexpr (kBlockIndex == 0) EDGEDRAFT_MULTIPLY(7, 0, 5);
      if constexpr (kBlockIndex == 1) EDGEDRAFT_MULTIPLY(7, 1, 5);
      if constexpr (kBlockIndex == 2) EDGEDRAFT_MULTIPLY(7, 2, 5);
      if constexpr (kBlockIndex == 3) EDGEDRAFT_MULTIPLY(7, 3, 5);
      _tile_stored(7, dots, sizeof(Part));
    }
  }
#undef EDGEDRAFT_MULTIPLY

  EDGEDRAFT_INLINE Scaling scaling_of(std::size_t unit) const {
    const TileBlock<W>* blocks = blocks_ + unit / kPanelParts * kBlocksAScale;
    const std::size_t output = unit % kPanelParts * kPartLanes;
    Scaling scaling;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kDots; ++i) {
      scaling.scale[i] = load_part(blocks[i / W::kHalves].scales[i % W::kHalves] + output);
    }
    if constexpr (W::kHasMinimum) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kBlocksAScale; ++i) {
        scaling.minimum[i] = load_part(blocks[i].minima + output);
      }
    }
    return scaling;
  }

  EDGEDRAFT_INLINE void add_rows(std::size_t unit, const Scaling& scaling, std::size_t begin,
                                 std::size_t end) {
    const std::size_t group = unit / kPanelParts;
    const std::byte* x =
        x_.block + group * kBlocksAScale * ActivationRow::kBlockBytes + begin * x_.stride;
    const std::byte* scale = x_.scale + group * sizeof(float) + begin * x_.stride;
    float* sums = sums_ + begin * kPanelOutputs + unit % kPanelParts * kPartLanes;
    const std::int32_t* dots = dots_.dots[unit % 2][0][begin];
    for (std::size_t row = begin; row < end; ++row) {
      Part scaled{};
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kDots; ++i) {
        const auto dot = load_bytes<IntPart>(dots + i * kTileRowsMax * kPartLanes);
        scaled = fma(__builtin_convertvector(dot, Part), scaling.scale[i], scaled);
        if constexpr (W::kHasMinimum) {
          const IntPart start = all_int(start_of(x + i * ActivationRow::kBlockBytes, 1, 0));
          scaled = fma(__builtin_convertvector(start, Part), scaling.minimum[i], scaled);
        }
      }
      store_part(sums, fma(scaled, all_part(load_bytes<float>(scale)), load_part(sums)));
      x += x_.stride;
      scale += x_.stride;
      sums += kPanelOutputs;
      dots += kPartLanes;
    }
  }

  const TileBlock<W>* blocks_;
  std::size_t units_;
  TileActivations x_;
  std::size_t rows_;
  std::size_t skip_;
  float* sums_;
  UnitDots<W>& dots_;
};

inline constexpr std::size_t kTileChunkBlocks = 16;
inline constexpr std::size_t kTilesRowsMin = 24;

template <class W>
struct TileChunk {
  TileBlock<W> blocks[kTileChunkBlocks];
  UnitDots<W> dots;
};

// `count` blocks of a panel, a multiple of kBlocksAScale, and rows first..first+rows-1. All tiles
// have tile_rows rows: the last one begins before the end of the one in front of it if need be.
template <class W>
void run_on_tiles(const Int8MatmulArgs& a, Packed<W> from, std::size_t block, std::size_t count,
                  const std::byte* next, std::size_t next_bytes, std::size_t first,
                  std::size_t rows, std::size_t tile_rows, float* sums, TileChunk<W>& chunk) {
  const std::size_t tiles = (rows + tile_rows - 1) / tile_rows;
  const std::size_t lines = next_bytes / (2 * kCacheLineBytes) + 1;
  const std::size_t turns = count + count / kBlocksAScale * kPanelParts * kUnitDots<W> * tiles;
  TileAhead ahead{next, lines * kCacheLineBytes, lines, (lines + turns - 1) / turns};
  for (std::size_t i = 0; i < count; ++i, from.next()) {
    decode_tile_block(from, chunk.blocks[i]);
    ahead.ask();
  }
  settle_memory();
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    const std::size_t row = smaller(tile * tile_rows, rows - tile_rows);
    const std::byte* x = a.x + (first + row) * a.x_stride;
    TileRows<W>(chunk.blocks, count,
                {x + block * ActivationRow::kBlockBytes,
                 x + ActivationRow::scales_offset(a.inputs) + block / kBlocksAScale * sizeof(float),
                 a.x_stride},
                tile_rows, tile * tile_rows - row, sums + row * kPanelOutputs, chunk.dots)
        .run(ahead);
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA

#endif
