#pragma once

#include "kernels/cpu/amx.h"
#include "kernels/cpu/int8_tile.h"

// The sums of int8_tile.h on AMX tile registers: the same values in the same order.
//
// One instruction multiplies up to 16 rows by 16 outputs over the 32 inputs of a block. Vector
// instructions convert, scale and add the result, which takes longer than the multiplication. So
// both alternate: a step multiplies one block, and adds the previous unit's result for the same
// block. A unit is a register of outputs times a group of blocks. Meanwhile the next chunk of
// weights is decoded, half a block per step.
#if defined(__AMX_INT8__)
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

// True if tiles are faster than int8_tile.h for a weight of this size. From memory, with q4_0, q8_0
// and q4_k on two cores, 10 rows take the same time either way, and 12 are 2 to 8 % faster. In
// passes with small weights, tiles lost 8 to 11 % at 12 and 16 rows per thread.
constexpr bool tiles_are_faster(std::size_t rows, std::size_t weight_bytes) {
  return rows >= (weight_bytes < (std::size_t{1} << 20) ? 32 : 12);
}
// Block halves with separate scales would take two multiplications and two conversions per block:
// slower than int8_tile.h at every width.
template <class W>
inline constexpr bool kHasTiles = W::kHalves == 1 && !W::kDecodesFirst;

// Blocks whose activations are in tile registers at a time.
inline constexpr std::size_t kTileGroupBlocks = 4;
// Blocks of the panel per chunk. The first-level cache holds two chunks as bytes with the rest.
inline constexpr std::size_t kTileChunkBlocks = 8;
inline constexpr std::size_t kTileChunkGroups = kTileChunkBlocks / kTileGroupBlocks;

// A block of type W for tiles: signed bytes, or unsigned ones with minima.
template <class W>
struct alignas(kCacheLineBytes) TileBlock {
  float scales[kPanelOutputs];
  float minima[W::kHasMinimum ? kPanelOutputs : 0];  // / 128, for the activations' starts
  std::byte lines[8 * kPanelLineBytes];
};

// Packed blocks that are decoded next, `groups` groups from `at` on.
template <class W>
struct TileSource {
  BlockPlace at;
  std::size_t groups = 0;

  // `bytes`: start of a chunk of `groups` groups in a panel.
  static TileSource from(const std::byte* bytes, std::size_t groups) {
    return {Packed<W>::from(bytes).at, groups};
  }
};

template <class W, int q = 0>
EDGEDRAFT_INLINE void decode_tile_lines(const BlockPlace& at, std::size_t part, std::byte* lines) {
  if constexpr (q < 8) {
    UintPart bytes = W::template bytes<q>(at, part);
    if constexpr (!W::kHasMinimum) bytes ^= 0x80808080u;
    std::memcpy(lines + q * kPanelLineBytes + part * sizeof bytes, &bytes, sizeof bytes);
    decode_tile_lines<W, q + 1>(at, part, lines);
  }
}
// One register of outputs of block `index`.
template <class W>
EDGEDRAFT_INLINE void decode_tile_part(const TileSource<W>& from, std::size_t index,
                                       std::size_t part, TileBlock<W>& to) {
  const BlockPlace at{from.at.header, from.at.block + index * W::kSizes.block_bytes};
  store_part(to.scales + part * kPartLanes, W::scale(at, part, 0));
  if constexpr (W::kHasMinimum) {
    store_part(to.minima + part * kPartLanes, W::minimum(at, part, 0) * all_part(1.0f / 128));
  }
  decode_tile_lines<W>(at, part, to.lines);
}

// Prefetches (int8_tile.h): `asks` lines from each stream per step.
struct TileAhead {
  static constexpr std::size_t kPlaces = 2;
  const std::byte* from;
  std::size_t distance;  // between streams
  std::size_t asks;

  EDGEDRAFT_INLINE void ask() {
    for (std::size_t i = 0; i < asks; ++i, from += kCacheLineBytes) {
      __builtin_prefetch(from, 0, 2);
      __builtin_prefetch(from + distance, 0, 2);
    }
  }
};

// Tiles 0 to 3: activations, one block each. 4: weights. 6, 7: dot products.
inline TileShapes tile_shapes(std::size_t rows) {
  TileShapes shapes;
  for (std::size_t tile = 0; tile < 4; ++tile) shapes.set(tile, rows, kBlock);
  shapes.set(4, kBlock / 4, sizeof(Part));
  for (std::size_t tile = 6; tile < 8; ++tile) shapes.set(tile, rows, sizeof(Part));
  return shapes;
}
// Number of tiles of `tile_rows` rows for `rows`.
constexpr std::size_t tiles_of(std::size_t rows, std::size_t tile_rows) {
  return (rows + tile_rows - 1) / tile_rows;
}
// Rows per tile if tiles are as equal as possible.
constexpr std::size_t tile_rows_of(std::size_t rows) {
  return tiles_of(rows, tiles_of(rows, kTileRowsMax));
}
// First row of a tile among `rows` rows. All tiles have tile_rows rows, so the last one may overlap
// the one before.
constexpr std::size_t tile_begin(std::size_t tile, std::size_t rows, std::size_t tile_rows) {
  return smaller(tile * tile_rows, rows - tile_rows);
}

// Values for a tile's rows, side by side, zero past the last: the scales of a chunk's blocks and,
// for minima, their starts.
template <class W>
struct alignas(kCacheLineBytes) TileRowNumbers {
  float scales[kTileRowsMax][kTileChunkBlocks];
  float starts[W::kHasMinimum ? kTileRowsMax : 0][kTileChunkBlocks];
};

template <class W>
struct alignas(kCacheLineBytes) TileScratch {
  TileBlock<W> blocks[2][kTileChunkBlocks];  // blocks of this chunk and the next
  std::int32_t dots[kTileGroupBlocks][kTileRowsMax][kPartLanes];
  TileRowNumbers<W> rows[2];  // rows of this tile and the previous one
  TileRowNumbers<W> no_rows;  // zeros
  float no_sums[kTileRowsMax * kPanelOutputs];
};

// Of the `blocks` blocks from `row` on and from the rows below.
template <class W>
EDGEDRAFT_INLINE void gather_row_numbers(const std::byte* row, std::size_t stride, std::size_t rows,
                                         std::size_t blocks, TileRowNumbers<W>& to) {
  for (std::size_t r = 0; r < rows; ++r, row += stride) {
    const std::byte* block = row;
    for (std::size_t i = 0; i < blocks; ++i, block += kActivationBlockBytes) {
      to.scales[r][i] = scale_of(block);
      if constexpr (W::kHasMinimum) to.starts[r][i] = static_cast<float>(start_of(block, 1, 0));
    }
  }
}

// Runs rows through a panel, chunk by chunk and tile by tile, as one sequence of units. R: a tile's
// rows rounded up, so that offsets are compile-time constants; rows past the last are computed from
// zeros and not stored.
template <class W, std::size_t R>
class TileRun {
 public:
  // The first chunk of the panel is blocks[turn].
  TileRun(TileScratch<W>& scratch, std::size_t turn)
      : scratch_(scratch), before_{scratch.blocks[turn], &scratch.no_rows, 0, scratch.no_sums} {}

  // Runs a tile with activations from `x` on through `groups` groups of blocks[turn]. Decodes
  // `next` into the other blocks.
  EDGEDRAFT_INLINE void run_tile(const std::byte* x, std::size_t stride, std::size_t groups,
                                 std::size_t turn, const TileRowNumbers<W>& rows, float* sums,
                                 const TileSource<W>& next, TileAhead& ahead) {
    for (std::size_t group = 0; group < groups; ++group) {
      _tile_loadd(0, x, stride);
      _tile_loadd(1, x + kActivationBlockBytes, stride);
      _tile_loadd(2, x + 2 * kActivationBlockBytes, stride);
      _tile_loadd(3, x + 3 * kActivationBlockBytes, stride);
      x += kTileGroupBlocks * kActivationBlockBytes;
      const std::size_t first = group * kTileGroupBlocks;
      const Unit unit{scratch_.blocks[turn] + first, &rows, group, sums};
      if (group < next.groups) {
        const TileSource<W> from{{next.at.header, next.at.block + first * W::kSizes.block_bytes}};
        TileBlock<W>* to = scratch_.blocks[1 - turn] + first;
        run_unit<0, true>(unit, from, to, ahead);
        run_unit<1, true>(unit, from, to, ahead);
      } else {
        run_unit<0, false>(unit, {}, nullptr, ahead);
        run_unit<1, false>(unit, {}, nullptr, ahead);
      }
    }
  }

  // Adds the last unit's result.
  EDGEDRAFT_INLINE void finish() {
    _tile_stored(6, scratch_.dots[2], sizeof(Part));
    _tile_stored(7, scratch_.dots[3], sizeof(Part));
    add<1, 0>();
    add<1, 1>();
    add<1, 2>();
    add<1, 3>();
  }

 private:
  // The work on one register of outputs and the blocks of a group.
  struct Unit {
    const TileBlock<W>* blocks;
    const TileRowNumbers<W>* rows;
    std::size_t group;
    float* sums;
  };
  static_assert(kPanelParts == 2 && kTileGroupBlocks == 4);

  template <std::size_t kPart, bool kDecode>
  EDGEDRAFT_INLINE void run_unit(const Unit& unit, const TileSource<W>& from, TileBlock<W>* to,
                                 TileAhead& ahead) {
    run_steps<kPart, kDecode, 0>(unit, from, to, ahead);
    before_ = unit;
  }

  template <std::size_t kPart, bool kDecode, std::size_t kStep>
  EDGEDRAFT_INLINE void run_steps(const Unit& unit, const TileSource<W>& from, TileBlock<W>* to,
                                  TileAhead& ahead) {
    if constexpr (kStep < kTileGroupBlocks) {
      multiply<kStep>(unit.blocks[kStep].lines + kPart * sizeof(Part));
      ahead.ask();
      if constexpr (kDecode) {
        constexpr std::size_t kIndex = (kPart * kTileGroupBlocks + kStep) / kPanelParts;
        decode_tile_part<W>(from, kIndex, kStep % 2, to[kIndex]);
      }
      add<1 - kPart, kStep>();
      run_steps<kPart, kDecode, kStep + 1>(unit, from, to, ahead);
    }
  }

#define EDGEDRAFT_TILE_DOTS(dots, activations) \
  do {                                         \
    if constexpr (W::kHasMinimum) {            \
      _tile_dpbsud(dots, activations, 4);      \
    } else {                                   \
      _tile_dpbssd(dots, activations, 4);      \
    }                                          \
  } while (false)

  // Stores a tile of dot products two steps after its multiplication, to avoid waiting for it.
  template <std::size_t kStep>
  EDGEDRAFT_INLINE void multiply(const std::byte* lines) {
    std::int32_t* stored = scratch_.dots[(kStep + 2) % kTileGroupBlocks][0];
    if constexpr (kStep % 2 == 0) {
      _tile_stored(6, stored, sizeof(Part));
      _tile_zero(6);
      _tile_loadd(4, lines, kPanelLineBytes);
      if constexpr (kStep == 0) EDGEDRAFT_TILE_DOTS(6, 0);
      if constexpr (kStep == 2) EDGEDRAFT_TILE_DOTS(6, 2);
    } else {
      _tile_stored(7, stored, sizeof(Part));
      _tile_zero(7);
      _tile_loadd(4, lines, kPanelLineBytes);
      if constexpr (kStep == 1) EDGEDRAFT_TILE_DOTS(7, 1);
      if constexpr (kStep == 3) EDGEDRAFT_TILE_DOTS(7, 3);
    }
  }
#undef EDGEDRAFT_TILE_DOTS

  // Dot products of step kStep of the previous unit, for outputs of part kPart.
  template <std::size_t kPart, std::size_t kStep>
  EDGEDRAFT_INLINE void add() {
    const TileBlock<W>& block = before_.blocks[kStep];
    const Part weight_scale = load_part(block.scales + kPart * kPartLanes);
    const std::size_t at = before_.group * kTileGroupBlocks + kStep;
    const float* scales = before_.rows->scales[0] + at;
    float* sums = before_.sums + kPart * kPartLanes;
#pragma GCC unroll 16
    for (std::size_t r = 0; r < R; ++r) {
      const auto dot = load_bytes<IntPart>(scratch_.dots[kStep][r]);
      Part scaled = __builtin_convertvector(dot, Part) * weight_scale;
      if constexpr (W::kHasMinimum) {
        const float* starts = before_.rows->starts[0] + at;
        const Part minimum = load_part(block.minima + kPart * kPartLanes);
        scaled = fma(all_part(starts[r * kTileChunkBlocks]), minimum, scaled);
      }
      float* to = sums + r * kPanelOutputs;
      const Part before = kStep == 0 ? load_part(to) : sums_[r];
      sums_[r] = fma(scaled, all_part(scales[r * kTileChunkBlocks]), before);
      if constexpr (kStep + 1 == kTileGroupBlocks) store_part(to, sums_[r]);
    }
  }

  TileScratch<W>& scratch_;
  Unit before_;
  Part sums_[R];
};

// Decodes the groups from `first` on.
template <class W>
void decode_groups(const TileSource<W>& from, std::size_t first, TileBlock<W>* to) {
  for (std::size_t i = first * kTileGroupBlocks; i < from.groups * kTileGroupBlocks; ++i) {
    for (std::size_t part = 0; part < kPanelParts; ++part) {
      decode_tile_part<W>(from, i, part, to[i]);
    }
  }
  settle_memory();
}

// Input of a panel, and what is decoded for the next panel.
template <class W>
struct TilePanel {
  const std::byte* panel;
  std::size_t groups;  // groups in its blocks
  std::size_t first;   // row
  std::size_t rows;
  std::size_t tile_rows;
  TileSource<W> next;
};

// Adds to sums; tile t's are kTileRowsMax * t rows from the first. blocks[turn] holds the first
// chunk, decoded. Returns the turn of the next panel's first chunk.
template <class W, std::size_t R>
std::size_t run_panel_on_tiles(const Int8MatmulArgs& a, const TilePanel<W>& p, std::size_t turn,
                               TileScratch<W>& scratch, float* sums) {
  TileRun<W, R> run(scratch, turn);
  std::size_t row_turn = 0;
  for (std::size_t group = 0; group < p.groups; group += kTileChunkGroups, turn = 1 - turn) {
    const std::size_t groups = smaller(kTileChunkGroups, p.groups - group);
    const std::size_t end = group + groups;
    const std::size_t block = group * kTileGroupBlocks;
    const std::byte* behind = p.panel + W::kSizes.bytes(end * kTileGroupBlocks);
    TileSource<W> next = p.next;
    if (end < p.groups) {
      next = TileSource<W>::from(behind, smaller(kTileChunkGroups, p.groups - end));
    }
    // The chunk after the one being decoded.
    constexpr std::size_t kChunkBytes = W::kSizes.bytes(kTileChunkBlocks);
    constexpr std::size_t kLines = kChunkBytes / (TileAhead::kPlaces * kCacheLineBytes) + 1;
    const std::size_t steps = groups * kTileGroupBlocks * kPanelParts;  // per tile
    const std::size_t tiles = tiles_of(p.rows, p.tile_rows);
    TileAhead ahead{behind + 2 * kChunkBytes, kLines * kCacheLineBytes,
                    tiles_of(kLines, tiles * steps)};
    const std::size_t asking_tiles = tiles_of(kLines, ahead.asks * steps);
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      const std::size_t row = p.first + tile_begin(tile, p.rows, p.tile_rows);
      const std::byte* x = a.x + row * a.x_stride + block * kActivationBlockBytes;
      auto& numbers = scratch.rows[row_turn];
      row_turn = 1 - row_turn;
      gather_row_numbers<W>(x, a.x_stride, p.tile_rows, groups * kTileGroupBlocks, numbers);
      if (tile == asking_tiles) ahead.asks = 0;
      run.run_tile(x + kQuadsOffset, a.x_stride, groups, turn, numbers,
                   sums + tile * kTileRowsMax * kPanelOutputs, tile == 0 ? next : TileSource<W>{},
                   ahead);
    }
    // The last chunk of a panel may have fewer groups than the first of the next.
    decode_groups<W>(next, groups, scratch.blocks[1 - turn]);
  }
  run.finish();
  return turn;
}

template <class W>
std::size_t run_panel_on_tiles(const Int8MatmulArgs& a, const TilePanel<W>& p, std::size_t turn,
                               TileScratch<W>& scratch, float* sums) {
  // The smallest tile has 9 rows: 17 rows in two tiles.
  return p.tile_rows > 12 ? run_panel_on_tiles<W, 16>(a, p, turn, scratch, sums)
                          : run_panel_on_tiles<W, 12>(a, p, turn, scratch, sums);
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
#endif
