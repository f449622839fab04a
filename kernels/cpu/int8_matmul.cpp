#include "kernels/cpu/amx_tile.h"
#include "kernels/cpu/int8_tile.h"

// Processes a panel of 32 outputs at a time. Few rows: one tile of all rows streams through the
// panel. More rows: chunks of the panel are brought into the first-level cache, decoded if the type
// needs it, and used for every tile of rows. With AMX the chunk is decoded for its tiles. All paths
// compute each element in the same steps and order.
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// A chunk of weights is 16 KiB as bytes. The first-level cache holds it with a tile of activations
// and a tile's sums.
constexpr std::size_t kChunkBlocks = 16;
// Rows whose sums, 16 KiB, fit the first-level cache as well.
constexpr std::size_t kBlockRows = 128;

template <class W>
struct Scratch {
  float sums[kBlockRows * kPanelOutputs];
  union {
    DecodedBlock<FormOf<W>> decoded[kChunkBlocks];
#if defined(__AMX_INT8__)
    TileScratch<W> tiles;
#endif
  };
};

// A part of a panel and the rows that go through it.
template <class Source>
struct Piece {
  Source source;
  std::size_t first_block;  // first block of the activations
  std::size_t block_count;
};

template <class Source, std::size_t R, std::size_t kFirstPart, class Ahead>
EDGEDRAFT_INLINE void run_parts(const Piece<Source>& piece, const std::byte* const (&x)[R],
                                float* sums, Ahead& ahead) {
  Int8Tile<Source, R, kFirstPart>::run(piece.source, piece.block_count, x, sums, ahead);
  constexpr std::size_t kNextPart = kFirstPart + parts_of_tile<typename Source::W>(R);
  if constexpr (kNextPart < kPanelParts) {
    auto&& still_ahead = ahead.in_next_walk();
    run_parts<Source, R, kNextPart>(piece, x, sums, still_ahead);
  }
}

template <class Source, std::size_t R, class Ahead>
void run_tile(const Int8MatmulArgs& a, const Piece<Source>& piece, std::size_t row, float* sums,
              Ahead& ahead) {
  const std::byte* x[R];
  for (std::size_t r = 0; r < R; ++r) {
    x[r] = a.x + (row + r) * a.x_stride + piece.first_block * kActivationBlockBytes;
  }
  run_parts<Source, R, 0>(piece, x, sums, ahead);
}

template <class Source, std::size_t R, class Ahead>
void run_rows(const Int8MatmulArgs& a, const Piece<Source>& piece, std::size_t row,
              std::size_t rows, float* sums, Ahead& ahead) {
  if (rows == R) {
    run_tile<Source, R>(a, piece, row, sums, ahead);
  } else if constexpr (R > 1) {
    run_rows<Source, R - 1>(a, piece, row, rows, sums, ahead);
  }
}

// Rows first..first+rows-1, as tiles of equal size or one row less, so that the cost grows evenly
// with the rows. They share the prefetches of the next chunk.
template <class Source>
void run_tiles(const Int8MatmulArgs& a, const Piece<Source>& piece, const std::byte* next,
               std::size_t next_bytes, std::size_t first, std::size_t rows, float* sums) {
  using W = typename Source::W;
  const std::size_t tiles = (rows + kInt8TileRowsMax - 1) / kInt8TileRowsMax;
  const std::size_t lines = next_bytes / (kCacheLineBytes * AskForChunk::kPlaces) + 1;
  const std::size_t walks = kPanelParts / parts_of_tile<W>((rows + tiles - 1) / tiles);
  const std::size_t blocks = tiles * walks * piece.block_count;
  AskForChunk ahead{next, lines * kCacheLineBytes, (lines + blocks - 1) / blocks};
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    const std::size_t row = tile * rows / tiles;
    run_rows<Source, kInt8TileRowsMax>(a, piece, first + row, (tile + 1) * rows / tiles - row,
                                       sums + row * kPanelOutputs, ahead);
  }
}

// Up to this many rows stream through a panel as one tile. With five or more rows and weights that
// must be decoded, the core is too busy to prefetch in time. Without an instruction that adds four
// products, this is already so with one row; even a single tile then prefetches a chunk ahead.
#if defined(EDGEDRAFT_SHORT_SUMS) && !defined(__aarch64__)
template <class W>
constexpr std::size_t kStreamRowsMax = 0;
// These rows use longer chunks: two passes over a panel share only scales, so no data has to stay
// in the first-level cache.
constexpr std::size_t kLongChunkRowsMax = kInt8TileRowsMax;
#else
template <class W>
constexpr std::size_t kStreamRowsMax = W::kDecodesFirst
                                           ? 0
                                           : smaller(kInt8TileRowsMax, W::kIsBytes ? 6 : 4);
constexpr std::size_t kLongChunkRowsMax = 0;
#endif

constexpr std::size_t kLongChunkBlocks = 4 * kChunkBlocks;

// Up to this many tiles decode for themselves; more share a decoded chunk.
template <class W>
constexpr std::size_t kDecodingTilesMax = W::kDecodesFirst                          ? 0
                                          : W::kBits > 4 && kHasShortSums<W::kBits> ? 1
                                                                                    : 3;

// `rows` rows, at most kBlockRows, from `first` on, through one panel.
template <class W>
void multiply_panel(const Int8MatmulArgs& a, const std::byte* panel, std::size_t first,
                    std::size_t rows, Scratch<W>& scratch) {
  const std::size_t blocks = a.inputs / kBlock;
  std::memset(scratch.sums, 0, rows * kPanelOutputs * sizeof(float));
  if constexpr (kStreamRowsMax<W> != 0) {
    if (rows <= kStreamRowsMax<W>) {
      AskSteadily<W> ahead{panel};
      run_rows<Packed<W>, kStreamRowsMax<W>>(a, {Packed<W>::from(panel), 0, blocks}, first, rows,
                                             scratch.sums, ahead);
      return;
    }
  }
  const bool has_long_chunks = !W::kDecodesFirst && rows <= kLongChunkRowsMax;
  const std::size_t chunk = has_long_chunks ? kLongChunkBlocks : kChunkBlocks;
  for (std::size_t block = 0; block < blocks; block += chunk) {
    const std::size_t count = smaller(chunk, blocks - block);
    const auto source = Packed<W>::from(panel + W::kSizes.bytes(block));
    // A panel's last chunk is followed by the next panel's first.
    const std::byte* next = panel + W::kSizes.bytes(block + count);
    const std::size_t left = blocks - block - count;
    const std::size_t next_bytes = W::kSizes.bytes(smaller(chunk, left != 0 ? left : blocks));
    if constexpr (!W::kIsBytes) {
      if (rows > kDecodingTilesMax<W> * kInt8TileRowsMax) {
        auto from = source;
        for (std::size_t i = 0; i < count; ++i, from.next()) {
          decode_block(from, scratch.decoded[i]);
        }
        run_tiles<Decoded<FormOf<W>>>(a, {{scratch.decoded}, block, count}, next, next_bytes, first,
                                      rows, scratch.sums);
        continue;
      }
    }
    if constexpr (!W::kDecodesFirst) {
      run_tiles<Packed<W>>(a, {source, block, count}, next, next_bytes, first, rows, scratch.sums);
    }
  }
}

#if defined(__AMX_INT8__)

// On AMX tiles, all of one shape. Tile t's sums are kTileRowsMax * t rows from the first.
template <class W>
void multiply_on_tiles(const Int8MatmulArgs& a, const Work& work) {
  auto& scratch = *reinterpret_cast<Scratch<W>*>(work.scratch);
  const std::size_t blocks = a.inputs / kBlock;
  const std::size_t groups = blocks / kTileGroupBlocks;
  const std::size_t panel_bytes = W::kSizes.bytes(blocks);
  const std::size_t passes = tiles_of(a.rows, kBlockRows);
  const std::size_t tile_rows = tile_rows_of(tiles_of(a.rows, passes));
  const auto first_chunk = [&](std::size_t panel) {
    return TileSource<W>::from(a.panels + panel * panel_bytes, smaller(groups, kTileChunkGroups));
  };
  std::memset(&scratch.tiles.rows, 0, sizeof scratch.tiles.rows);
  std::memset(&scratch.tiles.no_rows, 0, sizeof scratch.tiles.no_rows);
  const Tiles in_use(tile_shapes(tile_rows));
  decode_groups<W>(first_chunk(work.begin), 0, scratch.tiles.blocks[0]);
  std::size_t turn = 0;
  for (std::size_t panel = work.begin; panel < work.end; ++panel) {
    const std::byte* from = a.panels + panel * panel_bytes;
    const std::size_t column = panel * kPanelOutputs;
    const std::size_t count = smaller(kPanelOutputs, a.outputs - column);
    for (std::size_t pass = 0; pass < passes; ++pass) {
      const std::size_t first = pass * a.rows / passes;
      const std::size_t rows = (pass + 1) * a.rows / passes - first;
      const std::size_t next = pass + 1 < passes ? panel : panel + 1;
      const std::size_t tiles = tiles_of(rows, tile_rows);
      std::memset(scratch.sums, 0, tiles * kTileRowsMax * kPanelOutputs * sizeof(float));
      turn = run_panel_on_tiles<W>(a,
                                   {from, groups, first, rows, tile_rows,
                                    next < work.end ? first_chunk(next) : TileSource<W>{}},
                                   turn, scratch.tiles, scratch.sums);
      for (std::size_t tile = 0; tile < tiles; ++tile) {
        const std::size_t begin = tile_begin(tile, rows, tile_rows);
        float* sums = scratch.sums + tile * kTileRowsMax * kPanelOutputs;
        const std::size_t block = groups * kTileGroupBlocks;
        if (block < blocks) {
          const auto rest = Packed<W>::from(from + W::kSizes.bytes(block));
          run_tiles<Packed<W>>(a, {rest, block, blocks - block}, nullptr, 0, first + begin,
                               tile_rows, sums);
        }
        for (std::size_t r = tile * tile_rows - begin; r < tile_rows; ++r) {
          finish(a, first + begin + r, column, count, sums + r * kPanelOutputs);
        }
      }
    }
  }
}

#endif

template <class W>
void multiply(const Int8MatmulArgs& a, const Work& work) {
  static_assert(sizeof(Scratch<W>) <= kInt8MatmulScratchFloats * sizeof(float));
  static_assert(kChunkBlocks % W::kSizes.blocks == 0);
#if defined(__AMX_INT8__)
  if constexpr (kHasTiles<W>) {
    const bool has_group = a.inputs >= kBlock * kTileGroupBlocks;
    const std::size_t bytes = packed_bytes(a.type, a.outputs, a.inputs);
    if (has_group && tiles_are_faster(a.rows, bytes)) return multiply_on_tiles<W>(a, work);
  }
#endif
  auto& scratch = *reinterpret_cast<Scratch<W>*>(work.scratch);
  const std::size_t panel_bytes = W::kSizes.bytes(a.inputs / kBlock);
  for (std::size_t panel = work.begin; panel < work.end; ++panel) {
    const std::size_t column = panel * kPanelOutputs;
    const std::size_t count = smaller(kPanelOutputs, a.outputs - column);
    for (std::size_t first = 0; first < a.rows; first += kBlockRows) {
      const std::size_t rows = smaller(kBlockRows, a.rows - first);
      multiply_panel<W>(a, a.panels + panel * panel_bytes, first, rows, scratch);
      for (std::size_t r = 0; r < rows; ++r) {
        finish(a, first + r, column, count, scratch.sums + r * kPanelOutputs);
      }
    }
  }
}

}  // namespace

void int8_matmul(const Int8MatmulArgs& a, const Work& work) {
  switch (a.type) {
    case DType::q8_0:
      return multiply<PackedQ8_0>(a, work);
    case DType::q4_0:
      return multiply<PackedQ4_0>(a, work);
    case DType::q5_0:
      return multiply<PackedQ5_0>(a, work);
    case DType::q4_1:
    case DType::q5_1:
      return multiply<PackedQ5_1>(a, work);
    case DType::q4_k:
      return multiply<PackedQ4_K>(a, work);
    case DType::q5_k:
      return multiply<PackedQ5_K>(a, work);
    case DType::q6_k:
      return multiply<PackedQ6_K>(a, work);
    case DType::q2_k:
      return multiply<PackedQ2_K>(a, work);
    case DType::q3_k:
      return multiply<PackedCodes<DType::q3_k, 2>>(a, work);
    case DType::iq4_xs:
      return multiply<PackedCodes<DType::iq4_xs, 1>>(a, work);
    case DType::iq3_s:
      return multiply<PackedCodes<DType::iq3_s, 1>>(a, work);
    case DType::iq3_xxs:
      return multiply<PackedCodes<DType::iq3_xxs, 1>>(a, work);
    case DType::iq2_s:
    case DType::iq2_xs:
      return multiply<PackedCodes<DType::iq2_s, 2>>(a, work);
    case DType::iq2_xxs:
      return multiply<PackedCodes<DType::iq2_xxs, 1>>(a, work);
    case DType::iq4_nl:
      return multiply<PackedCodes<DType::iq4_nl, 1>>(a, work);
    case DType::mxfp4:
      return multiply<PackedCodes<DType::mxfp4, 1>>(a, work);
    default:
      break;  // handled in matmul.cpp
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
